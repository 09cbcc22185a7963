import pytest

from parser.nvidia_smi import FIELDS, gpu_limits

VALUES = ["570.86.15", "1980 MHz", "2619 MHz", "700.00 W"]


@pytest.fixture
def program(tmp_path):
    def write(text, status=0):
        path = tmp_path / "nvidia-smi"
        path.write_text(f"#!/bin/sh\ncat <<'END'\n{text}\nEND\nexit {status}\n")
        path.chmod(0o755)
        return str(path)

    return write


def test_each_gpu_is_a_line(program):
    line = ", ".join(VALUES)
    assert gpu_limits(program(f"{line}\n{line}")) == 2 * [dict(zip(FIELDS, VALUES, strict=True))]


@pytest.mark.parametrize(("text", "status"), [("No devices were found", 0), (", ".join(VALUES), 9), ("", 0)])
def test_a_program_that_fails_tells_nothing(program, text, status):
    assert gpu_limits(program(text, status)) == []


def test_a_missing_program_tells_nothing(tmp_path):
    assert gpu_limits(str(tmp_path / "nvidia-smi")) == []
