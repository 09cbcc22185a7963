"""If a user's own `parser.py` has the name of our package, programs work or report what is wrong."""

import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest
from programs import make_foreign

import parser
import stack_parser
from parser.system.ray_cluster import cluster

PROJECT = Path(stack_parser.__file__).parent


@pytest.fixture
def other(tmp_path, monkeypatch):
    """A file `parser.py` in the working folder."""
    path = tmp_path / "own" / "parser.py"
    path.parent.mkdir()
    path.write_text("raise RuntimeError('of somebody else')\n")
    monkeypatch.chdir(path.parent)
    return path


def run(code, *arguments):
    """Run code in the working folder, which Python searches first because of -c."""
    command, variables = [sys.executable, "-c", code, *arguments], {**os.environ, "PYTHONPATH": str(PROJECT)}
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=False)


STARTED = "import sys; from stack_parser import program; sys.exit(program())"
INSTALLED = f"import sys; sys.path.remove(''); {STARTED}"
"""Like programs installed by pip, which do not search the working folder."""


def test_a_program_that_would_find_the_file_says_so(other):
    done = run(STARTED)
    assert done.returncode == 2
    assert f"Python finds {other} in place of the package `parser` in {PROJECT}; rename it" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_program_that_does_not_look_there_is_not_disturbed(other):
    assert run(INSTALLED, "--version").stdout.startswith("stack-parser ")


@pytest.mark.extended
@pytest.mark.parametrize("processes", ["1", "2"])
def test_parsing(processes, other):
    files = f"{PROJECT}/tests/model", f"{PROJECT}/data/quickstart/test.conllu"
    done = run(INSTALLED, "parse", *files, "--processes", processes)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n\n") == 300


@pytest.mark.extended
def test_training_by_several_processes(other):
    (other.parent / "data").symlink_to(PROJECT / "data")
    sizes = ("training.epochs=1", "parser.network.hidden_size=8", "tokenizer.most_steps=20")
    changes = [word for change in sizes for word in ("--set", change)]
    done = run(
        INSTALLED, "train", f"{PROJECT}/configs/quickstart.yaml", "--run", "run", "--processes", "2", *changes
    )
    assert done.returncode == 0, done.stderr
    assert Path("run/model/settings.json").is_file()


@pytest.mark.extended
def test_a_cluster_whose_workers_would_find_the_file_is_refused(other):
    pytest.importorskip("ray")
    with (
        pytest.raises(ValueError, match=rf"{other}: workers of Ray would take it for this"),
        cluster(None, 1, 1),
    ):
        pass


PIPELINES = """
import spacy
nlp = spacy.blank("en")
print(len(nlp("The cat sleeps.")))
try:
    nlp.add_pipe("stack_parser", config={"model": "model"})
except ImportError as error:
    print(error)
tokenizer = {"@tokenizers": "stack_parser.Tokenizer.v1", "model": "model"}
spacy.blank("en", config={"nlp": {"tokenizer": tokenizer}})
"""


@pytest.fixture
def foreign(tmp_path):
    """The environment of a Python with spaCy and our entry points."""
    return make_foreign(tmp_path / "project")


@pytest.mark.extended
def test_spacy_works_and_what_it_has_of_us_says_what_is_wrong(foreign, other):
    (other.parent / "own.py").write_text(PIPELINES)
    done = subprocess.run([sys.executable, "own.py"], env=foreign, capture_output=True, text=True)
    told = f"stack-parser: Python finds {other} in place of the package `parser`"
    length, of_component = done.stdout.splitlines()
    assert length == "4"
    assert of_component.startswith(told)
    assert f"ImportError: {told}" in done.stderr


def test_what_refuses_takes_what_the_component_takes():
    pytest.importorskip("spacy")
    refusing = stack_parser._refusing("", False)
    expected = inspect.signature(stack_parser.make_component).parameters
    assert list(inspect.signature(refusing).parameters) == list(expected)


def test_both_names_of_the_package_have_the_same_for_programs():
    assert list(stack_parser.PUBLIC) == parser.__all__
    assert all(getattr(stack_parser, name) is getattr(parser, name) for name in parser.__all__)
