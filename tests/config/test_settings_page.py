"""docs/settings.md, which scripts/write_settings.py writes."""

import subprocess
import sys
from typing import get_args, get_origin

import pytest
from programs import SCRIPTS, script

from parser.speed.measuring.cells import SpeedConfig
from parser.speed.tasks.discovery import find, installed
from parser.system.settings import Settings
from parser.training.config import Config
from parser.training.table import TableConfig

SCRIPT = SCRIPTS / "write_settings.py"


@pytest.fixture(name="script", scope="module")
def script_fixture():
    return script("write_settings")


def keys(settings, prefix=""):
    """The dotted keys of a class, with NAME for a name that the user chooses."""
    for name, field in settings.model_fields.items():
        key = f"{prefix}{name}"
        yield key
        for kind in classes(field.annotation):
            yield from keys(kind, f"{key}.NAME." if get_origin(field.annotation) is dict else f"{key}.")


def classes(annotation):
    """The settings classes in an annotation."""
    if isinstance(annotation, type) and issubclass(annotation, Settings):
        return [annotation]
    return [kind for part in get_args(annotation) for kind in classes(part)]


@pytest.mark.extended
def test_the_page_is_up_to_date():
    done = subprocess.run([sys.executable, SCRIPT, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_check_names_a_page_that_is_out_of_date(script, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(script, "PAGE", tmp_path / "settings.md")
    monkeypatch.setattr(sys, "argv", ["write_settings.py", "--check"])
    assert script.main() == 1
    assert "docs/settings.md is out of date" in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", ["write_settings.py"])
    assert script.main() == 0
    assert (tmp_path / "settings.md").read_text(encoding="utf-8") == script.page()


@pytest.mark.parametrize("settings", [Config, SpeedConfig, TableConfig])
def test_every_setting_has_a_line(script, settings):
    page = script.page()
    assert [key for key in keys(settings) if f"| `{key}` |" not in page] == []
    for field in settings.model_fields.values():
        assert " ".join((field.description or "").split()) in page


def test_the_settings_of_every_plugin_have_a_line(script):
    """Settings that training also has are only named."""
    _, *plugins = script.page().split("### Plugin `")
    texts = {name: text for name, _, text in (plugin.partition("`") for plugin in plugins)}
    own = [name for name, entry in installed().items() if entry.value.startswith("parser.")]
    assert list(texts) == own
    for name in own:
        others = ("parser.", "optimizer.")
        lines = [key for key in keys(find(name).Settings) if not key.startswith(others)]
        assert [key for key in lines if f"| `{key}" not in texts[name]] == []
    assert "the settings of [`training.optimizer`](#trainingoptimizer)" in texts["stack_parser"]
