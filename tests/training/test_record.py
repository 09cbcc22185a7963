import json

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from parser.training.record import Record


def shown(folder):
    board = EventAccumulator(str(folder / "tensorboard"))
    board.Reload()
    return [(event.step, event.value) for event in board.Scalars("loss")]


def test_metrics_and_board_are_cut_back(tmp_path):
    with Record(tmp_path, "seed: 1\n") as record:
        size = record.write(1, {"loss": 0.5, "dev_loss": float("nan")})
        record.write(2, {"loss": 0.25})
    assert shown(tmp_path) == [(1, 0.5), (2, 0.25)]
    with Record(tmp_path, "seed: 1\n", size) as record:
        record.write(2, {"loss": 0.125})
    assert shown(tmp_path) == [(1, 0.5), (2, 0.125)]
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert rows == [{"epoch": 1, "loss": 0.5, "dev_loss": None}, {"epoch": 2, "loss": 0.125}]


def test_metrics_that_are_missing_are_noticed(tmp_path):
    with pytest.raises(ValueError, match="a part of it is missing"):
        Record(tmp_path, "", size=10)
