"""Runs of `stack-parser train` with the tiny config, that succeed or are refused."""

import pytest

from parser.cli import main


@pytest.fixture
def command_of(config_file, tmp_path, capsys):
    """A function that runs `train`, checks its exit code, and returns what it printed and what it told.

    changes: of the config; one that begins with -- is another argument.
    """

    def train(code, *changes, run="run"):
        arguments = [each if each.startswith("--") else f"--set={each}" for each in changes]
        capsys.readouterr()
        assert main(["train", str(config_file), "--run", str(tmp_path / run), *arguments]) == code
        return capsys.readouterr()

    return train


@pytest.fixture
def trained(command_of):
    """trained(*changes, run="run"): what `train` prints."""
    return lambda *changes, **how: command_of(0, *changes, **how).out


@pytest.fixture
def refused(command_of):
    """refused(*changes, run="run"): what `train` tells when it ends with exit code 2."""
    return lambda *changes, **how: command_of(2, *changes, **how).err
