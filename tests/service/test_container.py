"""The Dockerfile, as far as it can be tested without an image."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest

from parser.commands.serve_settings import options_of, settle

FILE, IGNORED = Path("scripts/container/Dockerfile"), Path(".dockerignore")
LINES = FILE.read_text(encoding="utf-8").replace("\\\n", "").splitlines()
LINTER = shutil.which("hadolint") or shutil.which("hadolint", path=Path(sys.executable).parent)


def instruction(name):
    """The arguments of the last instruction of this name."""
    return [line.partition(" ")[2] for line in LINES if line.startswith(f"{name} ")][-1]


@pytest.mark.skipif(not LINTER, reason="hadolint is not installed")
def test_the_file_has_no_faults():
    done = subprocess.run([LINTER, FILE], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("", 0)


def test_what_is_copied_exists_and_is_not_ignored():
    first, *rules = [line for line in IGNORED.read_text().splitlines() if not line.startswith("#")]
    assert first == "*"
    kept = [rule[1:] for rule in rules if rule.startswith("!")]
    copied = [source for line in LINES if line.startswith("COPY ") for source in shlex.split(line)[1:-1]]
    assert sorted(copied) == sorted(kept)
    assert all(Path(source).exists() for source in copied)
    assert any(fnmatch("parser/service/__pycache__", rule) for rule in rules)


def test_the_command_can_be_parsed_and_its_port_is_exposed():
    program, command, *arguments = json.loads(instruction("ENTRYPOINT"))
    assert (program, command) == ("stack-parser", "serve")
    variables = dict(word.split("=", 1) for word in shlex.split(instruction("ENV")))
    options = options_of(settle(arguments, variables))
    assert (options.models, options.host, options.device) == (["model=/model"], "0.0.0.0", "cpu")
    assert str(options.port) == instruction("EXPOSE")
    assert options_of(settle(["a"], variables)).models == ["a"]


def test_the_health_check_tells_whether_it_serves(service):
    command = json.loads(re.search(r"CMD (\[.*\])", instruction("HEALTHCHECK"))[1])
    assert command[0] == "python"

    def code(port):
        here = [sys.executable, *(part.replace(":8001/", f":{port}/") for part in command[1:])]
        return subprocess.run(here, stderr=subprocess.DEVNULL, check=False).returncode

    assert code(service.port) == 0
    assert code(1) != 0
