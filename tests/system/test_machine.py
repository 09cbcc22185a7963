import pytest

from parser.system.machine import (
    CpuTimes,
    available_memory,
    container_memory_limit,
    cpu_info,
    cpu_times,
    peak_resident_memory,
    reset_peak_resident_memory,
)
from parser.system.provenance import GPU_FIELDS, gpu_limits

VALUES = ["570.86.15", "1980 MHz", "2619 MHz", "700.00 W"]


@pytest.fixture
def file(tmp_path):
    def write(text):
        path = tmp_path / "file"
        path.write_text(text)
        return path

    return write


def test_cpu_times_do_not_count_idle_cores_or_waiting_for_disks(file):
    text = "cpu  100 20 30 400 50 6 7 8 90 0\ncpu0 1 1 1 1 1 1 1 1 0 0\nbtime 1\n"
    assert cpu_times(file(text)) == CpuTimes(busy=171, total=621)


@pytest.mark.parametrize("text", ["", "cpu 1 2\n", "swap 1 2 3 4 5 6 7 8\n", "cpu a b c d e\n"])
def test_other_files_have_no_cpu_times(file, text):
    assert cpu_times(file(text)) is None


def test_memory_is_in_bytes(file):
    assert available_memory(file("MemTotal:       99 kB\nMemAvailable:    7 kB\n")) == 7 * 1024
    assert peak_resident_memory(file("VmPeak: 9 kB\nVmHWM:\t    5 kB\n")) == 5 * 1024
    assert container_memory_limit(file("123\n")) == 123
    assert container_memory_limit(file("max\n")) is None


def test_the_cpu_is_described_by_its_fields(file):
    text = "processor\t: 0\nvendor_id\t: AuthenticAMD\nflags\t\t: fpu vme\n\nprocessor\t: 1\n"
    described = cpu_info(file(text))
    assert (described["vendor_id"], described["flags"]) == ("AuthenticAMD", "fpu vme")


def test_where_there_is_no_such_file_nothing_is_known(tmp_path):
    path = tmp_path / "none"
    for read in (cpu_info, cpu_times, available_memory, peak_resident_memory, container_memory_limit):
        assert read(path) is None
    reset_peak_resident_memory(tmp_path)  # a folder: cannot be written


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
    assert gpu_limits(program(f"{line}\n{line}")) == 2 * [dict(zip(GPU_FIELDS, VALUES, strict=True))]


@pytest.mark.parametrize(("text", "status"), [("No devices were found", 0), (", ".join(VALUES), 9), ("", 0)])
def test_a_program_that_fails_or_is_missing_tells_nothing(program, text, status):
    assert gpu_limits(program(text, status)) == gpu_limits("no/such/program") == []
