"""YAML within bounds, and without numbers that are read as other ones."""

import resource
import subprocess
import sys

import pytest
import yaml

from parser.config.yaml_loading import BoundedLoader, load
from parser.models.model_card import read_card
from parser.models.model_files import Folder

LEVELS = 9
BOMB = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]\n" for level in range(1, LEVELS)
)
"""Stands for a billion values."""
READ = """
import sys
from pathlib import Path
from parser.config.file import ConfigError
from parser.training.config import read_config
try:
    read_config(Path(sys.argv[1]), sys.argv[2:])
except ConfigError as error:
    print(error)
"""


def limited():
    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
    resource.setrlimit(resource.RLIMIT_CPU, (30, 30))


def told(path, *overrides):
    """What is told about a config by a process with little memory and time."""
    command = [sys.executable, "-c", READ, str(path), *overrides]
    return subprocess.run(command, preexec_fn=limited, capture_output=True, text=True, check=True).stdout


def test_aliases_that_stand_for_too_much_are_refused(tmp_path):
    path = tmp_path / "bomb.yaml"
    path.write_text(f"treebank: {{train: a, dev: b}}\n{BOMB}")
    fault = "with its aliases (*), this is more than 100,000 values; write fewer"
    assert told(path) == f"{path}:6: {fault}\n"  # a4, which would have 100,000 numbers and their lists
    path.write_text("treebank: {train: a, dev: b}\n")
    assert fault in told(path, f"parser={{{', '.join(BOMB.splitlines())}}}")


def test_merged_keys_are_counted_too():
    merged = "a0: &a0 {k: 1}\n" + "".join(
        f"a{level}: &a{level} {{<<: [{', '.join([f'*a{level - 1}'] * 10)}]}}\n" for level in range(1, LEVELS)
    )
    with pytest.raises(yaml.YAMLError, match="with its aliases"):
        load(merged)


def test_aliases_are_not_refused_as_such():
    assert load("a: &a {x: [1, 2]}\nb: *a\nc: {<<: *a, y: 3}") == {
        "a": {"x": [1, 2]},
        "b": {"x": [1, 2]},
        "c": {"x": [1, 2], "y": 3},
    }


def test_the_card_of_a_model_is_bounded_too(tmp_path):
    (tmp_path / "README.md").write_text(f"---\n{BOMB}---\n")
    with pytest.raises(ValueError, match="its beginning is not YAML"):
        read_card(Folder(tmp_path))


NUMBERS = {"010": 8, "-010": -8, "0_1": 1, "00": 0, "1:30": 90, "1:30.5": 90.5, "0x1F": 31, "0b11": 3}


@pytest.mark.parametrize(("text", "value"), [*NUMBERS.items(), ("!!int '010'", 8)])
def test_numbers_that_look_like_others_are_refused(text, value):
    number = text.removeprefix("!!int ").strip("'")
    message = f"YAML reads '{number}' as {value};"
    for content in (text, f"a: [{text}]", f"{{{text}: a}}"):
        with pytest.raises(yaml.MarkedYAMLError, match=message):
            load(content)
    assert yaml.load(text, Loader=BoundedLoader) == value


def test_decimal_numbers_are_read():
    numbers = {"0": 0, "-1": -1, "+10": 10, "1_000": 1000, "0.5": 0.5, "1e-3": 1e-3, ".5": 0.5, "-1.50": -1.5}
    assert {text: load(text) for text in numbers} == numbers
    assert load("['010', 1:30 h, 1.2.3]") == ["010", "1:30 h", "1.2.3"]
