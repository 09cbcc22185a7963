"""Fixtures that the tests share."""

from __future__ import annotations

import asyncio
import inspect
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
import torch
from chosen_device import ALL_SIMULATED, CHOSEN, DEVICE, DEVICES, SIMULATED
from simulated_cuda.device import SimulatedCuda
from small_parsers import save_reader_of_tags, save_reader_of_treebanks

from parser.batching import functional
from parser.batching.functional import Processor

HERE = Path(__file__).parent

# The same examples in every run, however long they take: neither luck nor other programs decide.
# `make test` runs few of them; `--hypothesis-profile "other examples"` draws others.
PROFILES = (("same examples", True, 30), ("few examples", True, 6), ("other examples", False, 30))
for name, same, examples in PROFILES:
    hypothesis.settings.register_profile(
        name,
        deadline=None,
        max_examples=examples,
        derandomize=same,
        suppress_health_check=[hypothesis.HealthCheck.too_slow],
    )
hypothesis.settings.load_profile("same examples")
# Tensors here are small, and on a busy machine two threads that wait for each other are far slower than one.
torch.set_num_threads(1)
# Programs that a shell starts in the background ignore Ctrl-C, and those started by `nohup` ignore closed
# terminals. The tests have to run there, too.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a test that is a coroutine in an event loop."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


@pytest.fixture(autouse=ALL_SIMULATED)
def _simulated() -> Iterator[None]:
    """Runs every test on the simulated GPU, if that was asked for."""
    with SimulatedCuda():
        yield


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> Iterator[torch.device]:
    """The device of the tensors."""
    if ALL_SIMULATED or request.param != SIMULATED:
        yield DEVICE
        return
    with SimulatedCuda() as simulated:
        yield simulated.name


@pytest.fixture
def cuda() -> Iterator[SimulatedCuda]:
    """The simulated GPU."""
    with SimulatedCuda() as simulated:
        yield simulated


@pytest.fixture(autouse=True)
def _alone(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Undoes what a test, or a command in it, changes in the process, and gives it caches of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("caches")))
    torch.manual_seed(1)
    torch.backends.cudnn.allow_tf32 = False  # as the commands set it
    yield
    torch.set_flush_denormal(False)
    torch.set_float32_matmul_precision("highest")


@pytest.fixture(scope="session")
def reader_of_tags(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a model that reads tags."""
    return save_reader_of_tags(tmp_path_factory.mktemp("reader-of-tags"))


@pytest.fixture(scope="session")
def reader_of_treebanks(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a model with an embedding of the treebank, which is `one` or `two`."""
    return save_reader_of_treebanks(tmp_path_factory.mktemp("reader-of-treebanks"))


@pytest.fixture
def several_threads() -> Iterator[None]:
    """PyTorch has computed with two threads, the second of which is missing in forked processes."""
    torch.set_num_threads(2)
    torch.ones(1 << 20).exp()
    yield
    torch.set_num_threads(1)


@pytest.fixture
def bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the CPU support bfloat16; if oneDNN has no LSTMs in bfloat16, PyTorch computes them, slowly."""
    able = Processor("AuthenticAMD", 25, frozenset(functional.CPU_EXTENSIONS))
    monkeypatch.setattr("parser.batching.functional.processor", lambda: able)
    if functional.why_unsupported("bfloat16", torch.device("cpu"), able):
        monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)


@pytest.fixture
def short_path() -> Iterator[Path]:
    """Like `tmp_path`, but for sockets, whose paths have at most about a hundred characters."""
    with tempfile.TemporaryDirectory(prefix="test-") as folder:
        yield Path(folder)


@pytest.fixture
def treebanks() -> Path:
    """The folder of UD treebanks under PARSER_DATA; without it the test is skipped with a message."""
    folder = Path(os.environ.get("PARSER_DATA") or "data") / "ud"
    if not folder.is_dir():
        pytest.skip(f"no treebanks in {folder}: set PARSER_DATA to the folder that holds ud/")
    return folder


@pytest.fixture
def config_file(tmp_path: Path) -> Path:
    """A config that trains a tiny parser on a tiny treebank in a second or two."""
    rows = {
        "dogs": "dogs dog NOUN NNS nsubj",
        "cats": "cats cat NOUN NNS nsubj",
        "sleep": "sleep sleep VERB VBP root",
        "bark": "bark bark VERB VBP root",
    }
    blocks = []
    for subject in ("dogs", "cats"):
        for verb in ("sleep", "bark"):
            lines = [f"# sent_id = {subject}-{verb}"]
            for number, (word, head) in enumerate(((subject, 2), (verb, 0)), 1):
                form, lemma, upos, xpos, label = rows[word].split()
                lines.append(f"{number}\t{form}\t{lemma}\t{upos}\t{xpos}\t_\t{head}\t{label}\t_\t_")
            lines.append("3\t.\t.\tPUNCT\t.\t_\t2\tpunct\t_\t_")
            blocks.append("\n".join(lines) + "\n\n")
    (tmp_path / "tiny.conllu").write_text("".join(blocks) * 4, encoding="utf-8")
    config = tmp_path / "tiny.yaml"
    config.write_text(
        f"""
treebank: {{train: {tmp_path}/tiny.conllu, dev: {tmp_path}/tiny.conllu, test: {tmp_path}/tiny.conllu}}
parser: {{network: {{word_size: 8, tag_sizes: {{upos: 4}}, token_size: 12, hidden_size: 16, layers: 1}}}}
training:
  epochs: 6
  batch_size: 4
  learning_rate: {{start: 1e-2, peak: 1e-2, warmup_epochs: 1}}
device: {"auto" if CHOSEN else "cpu"}
""",
        encoding="utf-8",
    )
    return config


TOYS = """[stack_parser.plugins]
toy = toys:Toy
liar = toys:Liar
packed_gru = packed_gru:PackedGRU
unimportable = toys_that_are_not_there:Toy
leaving = leaves_when_imported:Toy
"""


@pytest.fixture(scope="session")
def toys_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all tests, because the program remembers what is installed in a folder."""
    folder = tmp_path_factory.mktemp("toys") / "site"
    information = folder / "toys-1.0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: toys\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(TOYS)
    shutil.copy(HERE / "toys.py", folder)
    shutil.copy(HERE.parent / "docs/example-plugin/packed_gru.py", folder)
    (folder / "leaves_when_imported.py").write_text("import sys\n\nsys.exit('not today')\n")
    return folder


@pytest.fixture
def toys(toys_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a package with the plugins of `toys.py` and of the documentation, as if installed."""
    monkeypatch.syspath_prepend(str(toys_folder))  # the processes of the cells get it too
    return toys_folder
