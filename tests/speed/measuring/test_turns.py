"""Cells in turns, and the clock of their steps and phases."""

import time
from dataclasses import replace

import pytest
import torch
from speed_rows import cell

from parser.speed.measuring.progress import MachineLoad
from parser.speed.measuring.settings import Experiment, SpeedConfig
from parser.speed.measuring.stopwatch import PhaseClock, time_steps
from parser.speed.measuring.turns import References, measure_interleaved

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
