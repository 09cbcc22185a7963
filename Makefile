# make setup                                    installs the program and what it needs into .venv
# make data TREEBANK=UD_English-EWT             downloads a treebank
# make train CONFIG=configs/quickstart.yaml     trains a parser; PROCESSES=2 shares the work among two processes
# make train RESUME=runs/quickstart             continues a run
# make evaluate MODEL=… TREEBANK=…              scores it
# make parse MODEL=… IN=… OUT=…                 writes trees
# make speed CONFIG=configs/speed/quick.yaml    measures batching methods side by side
# make table CONFIG=configs/tables/….yaml       trains many parsers and writes a table
# make plots RUN=runs/speed/quick               draws them again
# make headline                                 measures what the plot of README compares, for hours, and draws it
# make reports                                  draws tables and plots of all kept measurements
# make test                                     runs the tests that tell whether the program is right
# make test-all                                 runs these and the others: clusters, kills, a simulated GPU, real data
# make release-models MODELS=runs/models        makes wheels of all models that train-all has trained
# make shipped-model                            trains the model that ships
# make release-check                            builds and checks the wheel, and uses it in an empty environment
# make docs                                     makes a site of docs/ below runs/docs/
# make help                                     prints these lines
# PYTHON=python3 uses an interpreter that has everything, and installs nothing.

ifdef PYTHON
READY :=
TEST_READY :=
CHECK_READY :=
DOCS_READY :=
else
PYTHON := .venv/bin/python
READY := .venv/ready
TEST_READY := .venv/ready-to-test
CHECK_READY := .venv/ready-to-check
DOCS_READY := .venv/ready-to-docs
endif
BASE_PYTHON ?= python3
CONFIG ?= configs/quickstart.yaml
IN ?= -
OUT ?= -
PROCESSES ?= 1
MODELS ?= runs/models
TREEBANKS ?= $(or $(PARSER_DATA),data)/ud

# On Linux without an NVIDIA GPU, the CPU build of PyTorch, gigabytes smaller; TORCH=torch takes the usual one.
TORCH ?= $(shell [ "$$(uname -s)" = Linux ] && ! nvidia-smi -L >/dev/null 2>&1 \
	&& echo "$$(grep '^torch==' constraints.txt)+cpu" || echo torch)
# Where CPU builds are, if the usual index has none.
CPU_BUILDS ?= https://download.pytorch.org/whl/cpu
INSTALL = .venv/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

# Importing them compiles what commands need; pip would compile all of PyTorch and its libraries, for half a minute.
IMPORTED = import parser.commands.train, torch._dynamo, parser.commands.parse, torch.utils.tensorboard, \
	matplotlib.backends.backend_svg

.PHONY: help setup train evaluate parse table speed plots headline reports figures test test-all soak data test-simulated test-gpu gpu docs \
	shipped-model release-models release-check check

help:
	@sed -n '/^# /!q; s/^# //p' $(firstword $(MAKEFILE_LIST))

setup: $(READY)

# What the commands of README need; tests and checks bring their own packages when they are first called. pip leaves
# a folder that makes every Python which is started here believe that the program is installed for it.
.venv/ready: pyproject.toml constraints.txt setup.py parser/runtime/build.py parser/runtime/kernels.c
	$(BASE_PYTHON) -m venv .venv
	$(INSTALL) --no-compile '$(TORCH)' 2>/dev/null || $(INSTALL) --no-compile --extra-index-url $(CPU_BUILDS) '$(TORCH)'
	$(INSTALL) --no-compile -e '.[train,serve]'
	rm -rf stack_parser.egg-info
	PYTHONDONTWRITEBYTECODE= .venv/bin/python -c '$(IMPORTED)'
	.venv/bin/python -c 'from parser.system.device_choice import warn_of_unused_gpu as warn; warn("auto")'
	touch $@

.venv/ready-to-%: .venv/ready
	$(INSTALL) -e '.[$*]'
	rm -rf stack_parser.egg-info
	touch $@

train: $(READY)
	$(PYTHON) -m parser train $(if $(RESUME),--resume "$(RESUME)","$(CONFIG)") --processes $(PROCESSES) $(ARGUMENTS)

evaluate: $(READY)
	@$(PYTHON) -m parser evaluate "$(MODEL)" "$(TREEBANK)" $(ARGUMENTS)

parse: $(READY)
	@$(PYTHON) -m parser parse "$(MODEL)" "$(IN)" -o "$(OUT)" $(ARGUMENTS)

table: CONFIG = configs/tables/batch-size.yaml
table: $(READY)
	$(PYTHON) -m parser table "$(CONFIG)" $(ARGUMENTS)

speed: CONFIG = configs/speed/quick.yaml
speed: $(READY)
	$(PYTHON) -m parser speed "$(CONFIG)" $(ARGUMENTS)

plots: $(READY)
	@$(PYTHON) -m parser plots "$(RUN)" $(ARGUMENTS)

# One process for each core, eight at the most; a test that hangs ends.
PYTEST = $(PYTHON) -m pytest --numprocesses auto --maxprocesses 8 --dist worksteal \
	-o faulthandler_timeout=900 -o faulthandler_exit_on_timeout=true

test: $(TEST_READY)
	$(PYTEST) -m "not extended and not real_data and not soak" --hypothesis-profile "few examples" $(ARGUMENTS)

# Also the tests with drawn examples again, with more of them. Real treebanks are looked for under PARSER_DATA.
test-all: test
	$(PYTEST) -m "(extended or real_data or hypothesis) and not soak" $(ARGUMENTS)

# What takes hours.
soak: $(TEST_READY)
	$(PYTHON) -m pytest -m soak $(ARGUMENTS)

# All tests with their tensors on a simulated GPU: no tensor is forgotten on the host, and no operator lacks a kernel.
test-simulated: $(TEST_READY)
	PARSER_TEST_DEVICE="simulated CUDA" $(PYTHON) -m pytest -m "not soak" --ignore tests/simulated_gpu $(ARGUMENTS)

# The whole suite with its tensors on the GPU.
test-gpu: $(TEST_READY)
	PARSER_TEST_DEVICE=cuda $(PYTHON) -m pytest -m "not soak" $(ARGUMENTS)

# Tests and measurements on a GPU, those of most worth first; ARGUMENTS="--seconds 450 --wheels FOLDER", and --rehearse without one.
gpu: $(TEST_READY)
	$(PYTHON) scripts/measure_gpu.py $(if $(filter -,$(OUT)),$(error write OUT=docs/measurements/speed/gpu-NAME),"$(OUT)") $(ARGUMENTS)

# A release of a treebank of Universal Dependencies into ud/ of the data folder; ARGUMENTS="--release r2.17" names another one.
# SET=… is a data set of the speed measurements; without both, these are listed.
data: $(READY)
	@$(PYTHON) $(if $(TREEBANK),scripts/download_treebank.py "$(TREEBANK)",scripts/download_data.py $(SET)) $(ARGUMENTS)

# Tables and plots of all measurements in docs/measurements, below runs/reports/; ARGUMENTS=speed/levels draws these.
reports: $(READY)
	$(PYTHON) scripts/write_reports.py $(ARGUMENTS)

# The cells of the plot in README and of its tables, all at one commit; ARGUMENTS="--minutes 30" begins no others after these.
headline: $(READY)
	$(PYTHON) scripts/measure_headline.py $(ARGUMENTS)
	$(PYTHON) scripts/write_figures.py

# What README and docs/ show of the measurements.
figures: $(READY)
	$(PYTHON) scripts/write_figures.py $(ARGUMENTS)

# The site of documentation; a warning is an error.
docs: $(DOCS_READY)
	$(PYTHON) -m sphinx --fail-on-warning --keep-going --quiet docs runs/docs
	@echo runs/docs/index.html

# The model that ships, in models/, with its weights in 16 bits; beside it its card and the licence of its treebank, which
# is the one that `make data TREEBANK=UD_English-EWT` downloads.
shipped-model: $(READY)
	$(PYTHON) -m parser train-all "$(TREEBANKS)" configs/ud-untagged.yaml -o runs/shipped --only UD_English-EWT
	mkdir -p models
	$(PYTHON) -m parser pack runs/shipped/english-ewt.stackparser -o models/english-ewt.stackparser \
		--precision int8 --dev $(TREEBANKS)/UD_English-EWT/en_ewt-ud-dev.conllu
	$(PYTHON) -m zipfile --extract models/english-ewt.stackparser runs/shipped/content
	cp runs/shipped/content/README.md runs/shipped/content/LICENSE.txt models/

# Wheels of all models of a folder, into dist/; ARGUMENTS="--precision float16" halves them.
release-models: $(READY)
	@for model in $(MODELS)/*.stackparser; do \
		$(PYTHON) -m parser pack "$$model" --wheel -o dist $(ARGUMENTS) || failed="$$failed $$model"; \
	done; \
	test -z "$$failed" || { echo "no wheel of$$failed" >&2; exit 1; }

# Source distribution and wheel, checked by twine; the wheel in an empty environment, far from the source.
release-check: $(TEST_READY)
	$(PYTHON) scripts/check_release.py

check: $(CHECK_READY)
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy
	$(PYTHON) -m codespell_lib
	$(PYTHON) scripts/write_settings.py --check
	$(PYTHON) scripts/write_client.py --check
	$(PYTHON) scripts/write_figures.py --check
