"""The order of packages: nothing imports upwards, and the comparison of ways of batching can be removed."""

import ast
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from services import serving, without_program

PACKAGE = Path("parser")
ORDER = [
    {"parser.system"},
    {"parser.client"},
    {"parser.batching"},
    {"parser.treebank"},
    {"parser.enhanced"},
    {"parser.transitions"},
    {"parser.config"},
    {"parser.networks"},
    {"parser.models"},
    {"parser.runtime"},
    {"parser.text"},
    {"parser.parsing"},
    {"parser.evaluation"},
    {"parser.pages"},
    {"parser.training"},
    {"parser.api"},
    {"parser.speed.tasks"},
    {"parser.speed.measuring"},
    {"parser.speed.reporting"},
    {"parser.speed"},
    {"parser.tables"},
    {"parser.service"},
    {"parser.commands"},
    {"parser", "parser.cli", "parser.__main__"},
]
"""From the bottom up; each package may import those of earlier sets and of its own set."""
TASKS = sorted(path.name for path in (PACKAGE / "speed/tasks").iterdir() if (path / "__init__.py").is_file())


def level_of(module):
    levels = {name: number for number, names in enumerate(ORDER) for name in names if within(module, name)}
    assert levels, f"{module} has no place in the order"
    return levels[max(levels, key=len)]


def within(module, name):
    return module == name or (name != "parser" and module.startswith(f"{name}."))


def imports():
    """Pairs: a module, and a module of the project that it imports anywhere in it."""
    for module, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "parser":
                yield module, node.module if node.module != "parser" else f"parser.{node.names[0].name}"
            elif isinstance(node, ast.Import):
                yield from ((module, name.name) for name in node.names if name.name.split(".")[0] == "parser")


def module_of(path):
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


@cache
def modules():
    """The syntax tree of each module of the program."""
    paths = sorted(PACKAGE.rglob("*.py"))
    return {module_of(path): ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def test_nothing_imports_upward():
    assert [(one, other) for one, other in imports() if level_of(other) > level_of(one)] == []


def test_tasks_do_not_import_each_other():
    of_tasks = tuple(f"parser.speed.tasks.{task}" for task in TASKS)
    across = [
        (one, other)
        for one, other in imports()
        if other.startswith(of_tasks) and other.split(".")[:4] != one.split(".")[:4]
        if other.split(".")[3] in TASKS
    ]
    assert across == []


def test_only_the_console_writes_messages():
    """Other modules would print file names without escaping them."""
    there = "parser.system.console"
    may_print = {there, "parser.system.interruption"}  # a constant, within a signal handler
    may_have_bars = {"parser.system.progress_bar", "parser.system.remote"}  # the latter for its lock
    wrong = [
        module
        for module, tree in modules().items()
        for node in ast.walk(tree)
        if (isinstance(node, ast.Name) and node.id == "print" and module not in may_print)
        or (isinstance(node, ast.ImportFrom) and node.module == "tqdm" and module not in may_have_bars)
    ]
    assert wrong == []


COMPARISON = (
    "speed",
    "batching/operations",
    "batching/recurrence",
    "batching/messages",
    "commands/speed.py",
    "commands/speed_arguments.py",
)
"""All that compares ways of batching, and what only it uses, below the package."""


@pytest.mark.extended
def test_without_the_comparison_a_parser_is_trained_parses_and_serves(tmp_path, config_file, monkeypatch):
    """In a copy without these parts, which nothing else may need."""
    shutil.copytree(PACKAGE, tmp_path / "parser", ignore=shutil.ignore_patterns("__pycache__"))
    for part in COMPARISON:
        path = tmp_path / "parser" / part
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    monkeypatch.chdir(tmp_path)  # from where programs import the copy

    def run(*arguments):
        command = [sys.executable, "-m", "parser", *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    listed = run("--help")
    assert "serve" in listed
    assert "plugins" not in listed
    run("table", "--help")
    model, treebank, trees = tmp_path / "run", tmp_path / "tiny.conllu", tmp_path / "trees.conllu"
    run("train", config_file, "--run", model)
    run("parse", model / "model", treebank, "-o", trees)
    parsed = trees.read_text(encoding="utf-8")
    assert parsed.count("# sent_id") == 16
    with serving(model / "model") as service:
        assert without_program(service.raw_result(data=parsed, input="conllu", parser="")) == parsed
