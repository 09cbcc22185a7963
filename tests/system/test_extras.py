"""Messages about packages that only some users need."""

import shlex
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from parser.system import extras
from parser.system.extras import to_install

EXTRAS = tomllib.loads(Path("pyproject.toml").read_text())["project"]["optional-dependencies"]
METADATA = [
    "torch>=2.5",
    *(f'{requirement}; extra == "{extra}"' for extra, own in EXTRAS.items() for requirement in own),
]


@pytest.mark.parametrize("extra", EXTRAS)
def test_the_packages_of_an_extra_are_named(extra, monkeypatch):
    monkeypatch.setattr(extras, "requires", lambda name: METADATA)
    assert shlex.split(to_install(extra)) == ["pip", "install", *EXTRAS[extra]]


def test_in_a_checkout_that_is_not_installed_the_extra_is_named(monkeypatch):
    def fail(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(extras, "requires", fail)
    assert to_install("text") == "pip install -e '.[text]'"
