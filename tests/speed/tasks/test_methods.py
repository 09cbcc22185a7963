"""Methods that are registered for a task."""

import sys
from types import SimpleNamespace

import pytest

from parser.cli import main
from parser.speed.tasks.discovery import find
from parser.speed.tasks.plugin import Method, RegisteredMethods, method, method_titles, methods_of

FILE = """
from parser.speed.tasks.lists.list_reduction_plugin import ListReductionPlugin, by_batches_or_messages
from parser.speed.tasks.plugin import method

@method("list_reduction", "again", title="the same again")
def again(setup, network):
    return by_batches_or_messages(setup, network)
"""


@pytest.fixture
def lists(tmp_path, monkeypatch):
    """The methods of a task, which are as before after the test; and a folder with a file for it."""
    find("list_reduction")
    methods = methods_of("list_reduction")
    copied = {mode: dict(named) for mode, named in methods._by_mode.items()}
    monkeypatch.setattr(methods, "_by_mode", copied)
    (tmp_path / "my_methods.py").write_text(FILE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "my_methods", raising=False)
    return methods


def test_a_method_of_a_users_own_file_is_checked_like_the_others(lists, capsys):
    assert main(["plugins", "my_methods:ListReductionPlugin", "--check"]) == 0
    assert "checking train, again at 3" in capsys.readouterr().err
    assert lists["train"][-1] == "again"
    assert method_titles(find("list_reduction"))["again"] == "the same again"


def test_a_package_adds_methods_to_an_installed_plugin(lists, tmp_path, capsys):
    information = tmp_path / "mine-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[stack_parser.methods]\nlist_reduction = my_methods\n")
    assert "again" in find("list_reduction").methods["train"]
    (tmp_path / "my_methods.py").write_text("1 / 0")
    del sys.modules["my_methods"]
    assert main(["plugins", "list_reduction"]) == 2
    assert "my_methods" in capsys.readouterr().err


def test_two_functions_cannot_be_one_method(lists):
    with pytest.raises(ValueError, match="'none'"):
        method("list_reduction", "none")(lambda setup, network: None)


def test_a_module_that_runs_again_replaces_its_methods():
    methods = RegisteredMethods()
    for made in (1, 2):

        def make(made=made):
            return made

        methods.add("infer", "none", Method(make, None, lambda setup: None, pads=False))
    assert methods["infer"] == ("none",)
    assert methods.chosen(SimpleNamespace(mode="infer", method="none")).make() == 2
