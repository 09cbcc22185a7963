"""Cells in turns, and the clock of their steps and phases."""

import itertools
import os
import time
from dataclasses import replace

import pytest
import torch
from speed_rows import cell

from parser.speed.measuring.cell_process import PhaseClock, time_steps
from parser.speed.measuring.cells import Experiment, SpeedConfig
from parser.speed.measuring.turns import CellProgress, MachineLoad, References, measure_interleaved
from parser.system.machine import CpuTimes

CONFIG = SpeedConfig(
    experiments={"toy": Experiment(plugin="toy")},
    seconds=0.2,
    turn=0.02,
    warmup=0.01,
    timeout=60,
    relative_error=1e-9,
)
CELL = cell(experiment="toy", plugin="toy", method="good")


class RecordedProgress:
    def __init__(self):
        self.started, self.shares = [], []

    def start(self, name):
        self.started.append(name)

    def advance(self, name, share):
        self.shares.append((name, share))


def measured(cells, config, progress=None):
    load = MachineLoad(lambda sentence: None)
    return list(measure_interleaved(cells, config, References(60), progress or RecordedProgress(), load))


@pytest.mark.extended
def test_cells_take_turns_and_each_is_checked(toys, monkeypatch):
    progress = RecordedProgress()
    cells = [replace(CELL, method=method) for method in ("none", "good", "wrong", "broken", "absent")]
    rows = {row.method: row for row in measured(cells, CONFIG, progress)}
    assert {method: row.status for method, row in rows.items()} == {
        "none": "ok",
        "good": "ok",
        "wrong": rows["wrong"].status,
        "broken": "error: ZeroDivisionError: the toy is broken",
        "absent": "skipped: nobody has it",
    }
    assert rows["wrong"].status.startswith("wrong: result 0 is")
    assert rows["good"].interleaved_group == rows["none"].interleaved_group
    assert progress.started == [cell.name for cell in cells]
    assert sum(share for _, share in progress.shares) == pytest.approx(len(cells))
    turns = [name for name, _ in progress.shares if "none" in name or "good" in name]
    assert turns[:6] == [cells[0].name, cells[1].name] * 3

    good = rows["good"]
    assert good.phase_seconds.keys() == {"forward", "backward", "update", "other"}
    assert good.calls_per_step > 5
    assert good.memory.host > 1e7
    assert good.padding_share == 0.25
    assert sum(good.seconds) >= 0.2
    assert len(good.seconds) == sum(good.turns) == len(good.sentences)
    assert 0 < good.mfu_with_update < good.mfu < 1
    assert good.ceiling > 1e8


@pytest.mark.extended
def test_a_cell_with_a_tight_interval_ends_early(toys):
    generous = CONFIG.model_copy(update={"seconds": 1000.0, "relative_error": 10.0})
    [row] = measured([CELL], generous)
    assert len(row.turns) == 6


def test_without_results_of_none_no_method_is_measured(toys):
    deaf = replace(CELL, settings={"no": "such setting"})
    [row] = measured([deaf], CONFIG)
    assert row.status.startswith("error: ValueError: settings.no: unknown key")


def test_each_step_has_its_seconds(device):
    seconds = time_steps(time.sleep, [0.01, 0.05, 0.02], device)
    assert len(seconds) == 3
    assert all(measured >= asked for measured, asked in zip(seconds, [0.01, 0.05, 0.02], strict=True))


def test_phases_add_up_only_while_the_clock_is_on(device):
    clock = PhaseClock(device)
    for on in (False, True, True, False):
        clock.on = on
        with clock("forward"):
            torch.ones(3, device=device).sum()
            time.sleep(0.01)
    assert clock.seconds.keys() == {"forward"}
    assert clock.seconds["forward"] >= 0.02


def test_a_phase_inside_of_another_takes_its_time_from_it(device):
    clock = PhaseClock(device)
    clock.on = True
    began = time.perf_counter()
    for _ in range(2):
        with clock("forward"):
            time.sleep(0.01)
            for _ in range(3):
                with clock("cells"):
                    time.sleep(0.05)
    assert clock.seconds["cells"] >= 0.3
    assert clock.seconds["forward"] >= 0.02
    assert sum(clock.seconds.values()) <= time.perf_counter() - began


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


def test_a_busy_and_a_quiet_machine_are_reported(two_cores):
    assert sentences(0.9) == ["the machine is busy: other programs use 0.9 of 2 CPU cores; timings will vary"]
    assert sentences(0.06) == ["the machine is quiet: other programs use 0.1 of 2 CPU cores"]


def test_only_changes_are_reported_again(two_cores):
    reported = [text.split(":")[0].split()[-1] for text in sentences(0.0, 0.1, 1.5, 0.8, 0.0)]
    assert reported == ["quiet", "busy", "quiet"]


@pytest.mark.parametrize(
    ("average", "sentence"),
    [
        (1.25, "the machine is busy: its load average is 1.2 on 2 CPU cores; timings will vary"),
        (0.1, "the machine is quiet: its load average is 0.1 on 2 CPU cores"),
    ],
)
def test_without_cpu_times_the_load_average_is_reported_once(two_cores, monkeypatch, average, sentence):
    monkeypatch.setattr(os, "getloadavg", lambda: (average, 0.0, 0.0))
    for unknown in (None, CpuTimes(5, 10)):  # times that stand still
        assert sentences(0.0, 0.0, reader=lambda unknown=unknown: unknown) == [sentence]


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
