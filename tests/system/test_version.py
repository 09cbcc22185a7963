"""The commit at which something was measured, and messages about packages that only some users need."""

import re
import shlex
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
from programs import git

from parser.system import version
from parser.system.version import commit_of, to_install

EXTRAS = tomllib.loads(Path("pyproject.toml").read_text())["project"]["optional-dependencies"]
METADATA = [
    "torch>=2.5",
    *(f'{requirement}; extra == "{extra}"' for extra, packages in EXTRAS.items() for requirement in packages),
]


@pytest.mark.parametrize("extra", EXTRAS)
def test_the_packages_of_an_extra_are_named(extra, monkeypatch):
    monkeypatch.setattr(version, "requires", lambda name: METADATA)
    assert shlex.split(to_install(extra)) == ["pip", "install", *EXTRAS[extra]]


def test_in_a_checkout_that_is_not_installed_the_extra_is_named(monkeypatch):
    def fail(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(version, "requires", fail)
    assert to_install("spacy") == "pip install -e '.[spacy]'"


@pytest.fixture
def checkout(tmp_path):
    (tmp_path / "source.py").write_text("")
    git(tmp_path, "init")
    git(tmp_path, "add", "source.py")
    git(tmp_path, "commit", "-m", "one")
    git(tmp_path, "tag", "-a", "v1.0.0", "-m", "one")
    return tmp_path


def test_it_is_a_hash_where_there_are_tags_too(checkout):
    assert re.fullmatch("[0-9a-f]{40}", commit_of(checkout / "source.py"))


def test_changes_are_told(checkout):
    (checkout / "source.py").write_text("changed")
    assert commit_of(checkout / "source.py").endswith("-dirty")


def test_a_file_that_is_not_of_the_checkout_has_none(checkout):
    (checkout / "installed.py").write_text("")
    assert commit_of(checkout / "installed.py") is None
