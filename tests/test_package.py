"""The package as a whole."""

import ast
import importlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
from pathlib import Path

import pytest
from extended import first_of
from programs import script

import parser
from parser.commands.arguments import argument_parser


def test_windows_is_told_that_it_is_not_supported(monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(ImportError, match="runs on Linux; on Windows use it in WSL 2"):
        importlib.reload(parser)


def test_the_licences_of_all_that_is_needed_are_listed():
    """To update the list after a change of pyproject.toml: python scripts/write_licences.py"""
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    page = Path("docs/licences.md").read_text(encoding="utf-8")
    names = [requirement.name for requirement in script("write_licences").needed(project)]
    assert re.findall(r"^\| (\S+) \| (?:everything|the extra)", page, re.MULTILINE) == names


def test_all_that_is_public_is_in_the_reference():
    names = re.findall(r"^\.\. auto\w+:: (\w+)(?![\w.])", Path("docs/api.md").read_text(), re.MULTILINE)
    assert sorted(names) == sorted(set(parser.__all__) - {"__version__"})


LIBRARIES = (
    "parser.batching.forest_lstm",
    "parser.batching.lstm",
    "parser.batching.messages",
    "parser.batching.operations",
    "parser.batching.stack_lstm",
)


@pytest.mark.extended
def test_the_libraries_need_pytorch_and_numpy_alone():
    others = ("conllu", "jinja2", "matplotlib", "pydantic", "safetensors", "tensorboard", "tqdm", "yaml")
    code = f"import sys; sys.modules.update(dict.fromkeys({others})); import {', '.join(LIBRARIES)}"
    subprocess.run([sys.executable, "-c", code], check=True)


SLOW = ("torch", "numpy", "scipy", "pydantic", "yaml", "matplotlib", "tensorboard", "networkx", "jinja2")
SLOW += ("ray", "spacy")
"""Packages that take long to import, or are optional."""
LIGHT = {
    ("--version",): 0,
    ("--help",): 0,
    ("parse", "--help"): 0,
    ("parse", "--batch-size", "0"): 2,
    ("check", "data/quickstart/train.conllu", "data/quickstart/dev.conllu"): 0,
    ("draw", "data/quickstart/test.conllu", "--text"): 0,
}
"""Commands that need none of these packages, with their exit codes."""
IMPORTED_BY = """
import sys
from importlib import import_module
from parser.cli import main
try:
    code = main(sys.argv[1:])
except SystemExit as ended:
    code = ended.code
print(code, [name for name in {names} if name in sys.modules], file=sys.stderr)
"""


@pytest.mark.parametrize("arguments", LIGHT, ids=" ".join)
def test_what_takes_long_to_import_is_not_imported(arguments):
    program = [sys.executable, "-c", IMPORTED_BY.format(names=SLOW), *arguments]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == f"{LIGHT[arguments]} []"


TREEBANK = "data/quickstart/test.conllu"
WITHOUT_PYTORCH = {
    ("parse", "tests/model", TREEBANK, "--probabilities", "--at-most-one", "nsubj"): [],
    ("parse", "tests/model", TREEBANK, "--processes", "2", "--device", "cpu"): [],
    ("evaluate", "tests/model", TREEBANK): [],
    ("evaluate", "tests/model", TREEBANK, "--report", "report.html"): ["jinja2"],
    ("compare", "tests/model", "tests/model", TREEBANK): [],
    ("select", "tests/model", TREEBANK, "--words", "50", "-o", "selected.conllu"): [],
    ("pack", "tests/model", "--precision", "float16", "-o", "packed.stackparser"): [],
    ("parse", "tests/model", TREEBANK, "--trees", "2"): ["torch"],
}
"""Commands, and what they import of `SLOW` besides NumPy, pydantic and YAML."""


@pytest.mark.parametrize("arguments", first_of(WITHOUT_PYTORCH), ids=" ".join)
def test_parsing_imports_nothing_that_it_does_not_need(arguments, tmp_path):
    names = [name for name in SLOW if name not in ("numpy", "pydantic", "yaml")]
    program = [sys.executable, "-c", IMPORTED_BY.format(names=names)]
    paths = [str(Path(part).absolute()) if Path(part).exists() else part for part in arguments]
    where = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    done = subprocess.run(
        [*program, *paths], cwd=tmp_path, env=where, capture_output=True, text=True, check=True
    )
    imported = WITHOUT_PYTORCH[arguments]
    assert done.stderr.splitlines()[-1] == f"0 {imported}"


LOAD = """
import sys
sys.modules["torch"] = None
import parser
english = parser.load("tests/model")
assert english.parse(["Dogs", "bark"]).heads
assert parser.evaluate(english, "data/quickstart/test.conllu").las > 50
try:
    parser.train
except ImportError as error:
    print(error)
try:
    english.best_trees(["Dogs", "bark"], 2)
except ImportError as error:
    print(error)
"""


def test_a_program_parses_without_pytorch():
    """And is told what to install for the rest."""
    done = subprocess.run([sys.executable, "-c", LOAD], capture_output=True, text=True, check=True)
    told = done.stdout.splitlines()
    assert [line.partition(",")[0] for line in told] == [
        "parser.train needs torch",
        "a search for several trees of a sentence needs torch",
    ]
    assert all("pip install" in line for line in told)


def test_a_check_without_pytorch_says_what_its_transitions_need():
    program = "import sys; sys.modules['torch'] = None; from parser.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "check", TREEBANK, "--transitions"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("check --transitions needs torch, which is not installed")


TRAIN = """
import sys
import parser.api, parser.cli
assert parser.cli.main(["train", sys.argv[1], "--run", sys.argv[2], "--set", "training.epochs=1"]) == 0
print([name for name in ("transformers", "tokenizers", "peft", "accelerate") if name in sys.modules])
"""


@pytest.mark.extended
def test_training_without_a_transformer_imports_no_library_for_one(config_file, tmp_path):
    command = [sys.executable, "-c", TRAIN, str(config_file), str(tmp_path / "run")]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert printed.splitlines()[-1] == "[]"


def test_every_command_has_a_function():
    [commands] = [action for action in argument_parser()._actions if action.dest == "command"]
    for command in commands.choices.values():
        module, _, function = command.get_default("run").partition(":")
        assert callable(getattr(importlib.import_module(module), function))


@pytest.fixture
def installed(tmp_path):
    """The Python of an environment with the package and everything in the present environment."""
    environment = tmp_path / "environment"
    venv.create(environment, symlinks=True)
    [packages] = environment.glob("lib/python*/site-packages")
    (packages / "parser").symlink_to(Path("parser").resolve())
    (packages / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return environment / "bin" / "python"


@pytest.mark.extended
def test_a_program_with_all_that_is_public_has_right_types(installed, tmp_path):
    pytest.importorskip("mypy", reason="mypy is of the extra `check`")
    program = Path("tests/typed_program.py")
    names = {node.id for node in ast.walk(ast.parse(program.read_text())) if isinstance(node, ast.Name)}
    assert set(parser.__all__) - {"__version__"} <= names
    shutil.copy(program, tmp_path)
    command = [sys.executable, "-m", "mypy", "--strict", "--python-executable", installed, program.name]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("Success"), done.stdout
