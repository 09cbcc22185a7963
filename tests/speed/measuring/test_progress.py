import itertools
import os
import time

import pytest

from parser.speed.measuring.progress import CellProgress, MachineLoad
from parser.system.machine import CpuTimes


@pytest.fixture
def two_cores(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 2)


def sentences(*used, reader=None):
    """What is reported if other programs use that many of two cores at each check."""
    times = []
    for share in used:
        times += [CpuTimes(0, 0), CpuTimes(int(50 * share), 100)]
    reported = []
    readings = iter(times)
    minutes = itertools.count(step=60.0)
    load = MachineLoad(
        reported.append, reader or (lambda: next(readings)), lambda seconds: None, lambda: next(minutes)
    )
    for _ in used:
        load.check()
    return reported


def test_a_busy_machine_is_reported(two_cores):
    assert sentences(0.9) == ["the machine is busy: other programs use 0.9 of 2 CPU cores; timings will vary"]


def test_a_quiet_machine_is_reported(two_cores):
    assert sentences(0.06) == ["the machine is quiet: other programs use 0.1 of 2 CPU cores"]


def test_only_changes_are_reported_again(two_cores):
    assert [text.split(":")[0] for text in sentences(0.0, 0.1, 1.5, 0.8, 0.0)] == [
        "the machine is quiet",
        "the machine is busy",
        "the machine is quiet",
    ]


@pytest.mark.parametrize(
    ("average", "sentence"),
    [
        (1.25, "the machine is busy: its load average is 1.2 on 2 CPU cores; timings will vary"),
        (0.1, "the machine is quiet: its load average is 0.1 on 2 CPU cores"),
    ],
)
def test_without_cpu_times_the_load_average_is_reported_once(two_cores, monkeypatch, average, sentence):
    monkeypatch.setattr(os, "getloadavg", lambda: (average, 0.0, 0.0))
    assert sentences(0.0, 0.0, reader=lambda: None) == [sentence]


def test_cpu_times_that_stand_still_count_as_unknown(two_cores, monkeypatch):
    monkeypatch.setattr(os, "getloadavg", lambda: (2.0, 0.0, 0.0))
    [sentence] = sentences(0.0, reader=lambda: CpuTimes(5, 10))
    assert "load average" in sentence


def test_samples_are_taken_at_intervals(two_cores):
    samples = []

    def read():
        samples.append(CpuTimes(0, len(samples)))
        return samples[-1]

    load = MachineLoad(lambda sentence: None, read, lambda seconds: None, lambda: 5.0)
    load.check()
    load.check()
    assert len(samples) == 2


def test_outside_a_terminal_the_progress_is_told_every_half_minute(monkeypatch, capsys):
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    progress = CellProgress(4)
    progress.start("first")
    for _ in range(14):
        now += 5.0
        progress.advance("first", 0.1)
    progress.close()
    assert capsys.readouterr().err.splitlines() == [
        "cell 1 of 4: first",
        "measured 0.6 of 4 cells",
        "measured 1.2 of 4 cells",
    ]
