from dataclasses import replace

import pytest

from parser.speed.cells import Cell
from parser.speed.settings import Experiment, SpeedConfig
from parser.speed.turns import References, disagreement, measure_in_turns

CONFIG = SpeedConfig(
    experiments={"toy": Experiment(plugin="toy")},
    seconds=0.2,
    turn=0.02,
    warmup=0.01,
    timeout=60,
    precision=1e-9,
)
CELL = Cell("toy", "toy", "train", "cpu", 1, "good", 8, 1, "{}")


@pytest.mark.parametrize(
    ("results", "expected", "difference"),
    [
        ([1.0, 100.0], [1.0, 100.01], None),  # rounding is a share of each
        ([1.01, 100.0], [1.0, 100.0], "result 0 is 1.01, but 1 without batching"),
        ([1e-6, 100.0], [0.0, 100.0], None),  # beside the largest that is nothing
        ([1e-5, 100.0], [0.0, 100.0], "result 0 is 1e-05, but 0 without batching"),
        ([1.0, 100.0], [1.0, 100.1], "result 1 is 100, but 100.1 without batching"),
        ([1.0], [1.0, 2.0], "1 results, but 2"),
        (None, [1.0], "0 results, but 1"),
        ([float("nan")], [1.0], "result 0 is nan"),
        ([1.0], [float("nan")], "but nan"),
        ([], [], None),
    ],
)
def test_disagreement(results, expected, difference):
    found = disagreement(results, expected)
    assert found == difference or difference in found


def test_cells_take_turns_and_each_is_checked(toys, monkeypatch):
    asked = []

    def watch(name, share):
        asked.append((name, share))

    cells = [replace(CELL, method=method) for method in ("none", "good", "wrong", "broken", "absent")]
    rows = {cell.method: row for cell, row in measure_in_turns(cells, CONFIG, References(60), watch)}
    assert {method: row["status"] for method, row in rows.items()} == {
        "none": "ok",
        "good": "ok",
        "wrong": rows["wrong"]["status"],
        "broken": "error: ZeroDivisionError: the toy is broken",
        "absent": "skipped: nobody has it",
    }
    assert rows["wrong"]["status"].startswith("wrong: result 0 is")
    assert rows["good"]["sitting"] == rows["none"]["sitting"]
    assert sum(share for _, share in asked) == pytest.approx(len(cells))
    turns = [
        name for name, _ in asked if not name.startswith("starting") and ("none" in name or "good" in name)
    ]
    assert turns[:6] == [cells[0].name, cells[1].name] * 3

    good = rows["good"]
    assert good["split"].keys() == {"forward", "backward", "update", "other"}
    assert good["calls_per_step"] > 5
    assert good["memory"]["host"] > 1e7
    assert good["padding_share"] == 0.25
    assert sum(good["seconds"]) >= 0.2
    assert len(good["seconds"]) == sum(good["turns"]) == len(good["sentences"])
    assert 0 < good["mfu_with_update"] < good["mfu"] < 1
    assert good["ceiling"] > 1e8


def test_a_cell_with_a_tight_interval_ends_early(toys):
    generous = CONFIG.model_copy(update={"seconds": 1000.0, "precision": 10.0})
    [(_, row)] = measure_in_turns([CELL], generous, References(60), lambda *_: None)
    assert len(row["turns"]) == 5


def test_what_none_can_not_do_no_method_can_be_compared_with(toys):
    deaf = replace(CELL, settings='{"no": "such setting"}')
    [(_, row)] = measure_in_turns([deaf], CONFIG, References(60), lambda *_: None)
    assert row["status"].startswith("error: ValueError: settings.no: Extra inputs")
