# make train CONFIG=configs/quickstart.yaml     trains a parser; PROCESSES=2 shares the work among two processes
# make evaluate MODEL=… TREEBANK=…              scores it
# make parse MODEL=… IN=… OUT=…                 writes trees
# make speed CONFIG=configs/speed/quick.yaml    measures batching methods side by side
# make table CONFIG=configs/tables/….yaml       trains many parsers and writes a table
# make plots RUN=runs/speed/quick               draws them again
# make test                                     runs the tests
# make release-check                            builds the wheel and uses it in an empty environment
# PYTHON=python3 uses an interpreter that has everything, and installs nothing.

ifdef PYTHON
READY :=
else
PYTHON := .venv/bin/python
READY := .venv/ready
endif
BASE_PYTHON ?= python3
CONFIG ?= configs/quickstart.yaml
IN ?= -
OUT ?= -
PROCESSES ?= 1

.PHONY: setup train evaluate parse table speed plots headline test test-slow fuzz data test-simulated test-gpu budgets gpu release-check check

setup: $(READY)

.venv/ready: pyproject.toml constraints.txt
	$(BASE_PYTHON) -m venv .venv
	.venv/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test,check]'
	touch .venv/ready

train: $(READY)
	$(PYTHON) -m parser train "$(CONFIG)" --processes $(PROCESSES) $(ARGUMENTS)

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
test: $(READY)
	$(PYTHON) -m pytest --numprocesses auto --maxprocesses 8 --dist worksteal \
		-o faulthandler_timeout=900 -o faulthandler_exit_on_timeout=true -m "not slow" $(ARGUMENTS)

# Real treebanks are looked for under PARSER_DATA; here the slow tests run too.
test-slow: $(READY)
	$(PYTHON) -m pytest $(ARGUMENTS)

# N damaged treebanks.
fuzz: N = 10000
fuzz: $(READY)
	PARSER_FUZZ=$(N) $(PYTHON) -m pytest tests/treebank/test_fuzzing.py $(ARGUMENTS)

# As make test-slow, with tensors on a simulated GPU: no tensor is forgotten on the host, and no operator lacks a kernel.
test-simulated: $(READY)
	PARSER_TEST_DEVICE="simulated CUDA" $(PYTHON) -m pytest --ignore tests/simulated_cuda $(ARGUMENTS)

# The whole suite with its tensors on the GPU.
test-gpu: $(READY)
	PARSER_TEST_DEVICE=cuda $(PYTHON) -m pytest $(ARGUMENTS)

# What training and parsing ask of a GPU, and what they may ask.
budgets: $(READY)
	$(PYTHON) scripts/print_budgets.py $(ARGUMENTS)

# All that is to be measured on a GPU, the next part of it.
gpu: $(READY)
	$(PYTHON) scripts/measure_gpu.py $(if $(filter -,$(OUT)),$(error write OUT=docs/measurements/gpu-NAME),$(OUT))

# A treebank of Universal Dependencies into data/ud/.
data: $(READY)
	$(PYTHON) scripts/download_treebank.py "$(TREEBANK)" $(ARGUMENTS)

# The plot and the table of speed-ups in README, from the rows in docs/measurements.
headline: $(READY)
	$(PYTHON) scripts/headline.py docs/measurements/headline.yaml $(ARGUMENTS)

# The wheel in an empty environment, far from the source: it trains, evaluates and parses.
release-check: $(READY)
	$(PYTHON) scripts/check_release.py

check: $(READY)
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy
	$(PYTHON) scripts/write_settings.py --check
