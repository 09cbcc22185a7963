"""The order of packages: nothing imports upwards, and each task of the speed harness can be removed."""

import ast
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path("parser")
ORDER = [
    {"parser.system"},
    {"parser.batching"},
    {"parser.treebank"},
    {"parser.transitions"},
    {"parser.config"},
    {"parser.networks"},
    {"parser.models"},
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


def imports(module):
    """The project's modules that a module imports anywhere in it."""
    for node in ast.walk(modules()[module]):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "parser":
            yield node.module if node.module != "parser" else f"parser.{node.names[0].name}"
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name.split(".")[0] == "parser")


def module_of(path):
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


@cache
def modules():
    """The syntax tree of each module of the program."""
    paths = sorted(PACKAGE.rglob("*.py"))
    return {module_of(path): ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def test_nothing_imports_upward():
    wrong = [
        f"{module} imports {imported}"
        for module in modules()
        for imported in imports(module)
        if level_of(imported) > level_of(module)
    ]
    assert wrong == []


def test_tasks_do_not_import_each_other():
    wrong = [
        f"{module} imports {imported}"
        for module in modules()
        for imported in imports(module)
        if imported.startswith("parser.speed.tasks.") and imported.split(".")[3] in TASKS
        if not module.startswith(".".join(imported.split(".")[:4]))
    ]
    assert wrong == []


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


LIST_PLUGINS = """
import sys
for folder in sys.argv[1:]:
    for name in [name for name in sys.modules if name.split(".")[0] == "parser"]:
        del sys.modules[name]
    sys.path[0] = folder
    from parser.speed.tasks.discovery import about_plugins
    print(folder, *about_plugins(), sep="\\n")
"""


@pytest.mark.extended
def test_without_a_task_the_others_are_there(tmp_path):
    """Each task is missing in one copy, and one process imports the copies one after the other."""
    copies = {name: tmp_path / f"without-{name}" for name in TASKS}
    for name, copy in copies.items():
        shutil.copytree(PACKAGE, copy / "parser", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.rmtree(copy / "parser/speed/tasks" / name)
    command = [sys.executable, "-c", LIST_PLUGINS, *map(str, copies.values())]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "cannot be imported" not in done.stdout
    listed = done.stdout.split(str(tmp_path))[1:]
    for name, plugins in zip(copies, listed, strict=True):
        folders = set(re.findall(r"parser\.speed\.tasks\.(\w+)\.", plugins))
        assert folders == set(TASKS) - {name}
