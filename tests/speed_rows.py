"""Rows of measurements for tests."""

from parser.speed.measuring.cells import Cell
from parser.speed.measuring.learning import Curve
from parser.speed.measuring.rows import FailedRow, Machine, SpeedRow, Versions
from parser.speed.measuring.run import RunRows
from parser.system.pytorch import MemoryUse

PROVENANCE = {
    "date": "2026-11-20T10:00:00+00:00",
    "commit": None,
    "versions": Versions("0.1", "3.11", "2.13"),
    "machine": Machine("CPU", "AVX2", 2, []),
}


def cell(**changed):
    usual = {"experiment": "first", "plugin": "reading", "mode": "train", "device": "cpu", "threads": 1}
    usual |= {"precision": "float32", "method": "none", "batch_size": 8, "seed": 1, "settings": {}}
    return Cell(**{**usual, **changed})


def speed_row(speed=100.0, **changed):
    """A row with two turns of one step each. changed: fields of the cell or of the row."""
    of_row = {name: changed.pop(name) for name in SpeedRow.__dataclass_fields__.keys() & changed.keys()
              if name not in Cell.__dataclass_fields__}  # fmt: skip
    measured = cell(**changed)
    size = measured.batch_size
    usual = {
        "sentences_per_second": speed,
        "interval": (speed - 1, speed + 1),
        "quartiles": (speed, speed),
        "tokens_per_second": 10 * speed,
        "tokens_interval": (10 * speed, 10 * speed),
        "operations_per_second": 1e9,
        "ceiling": 1e10,
        "mfu": 0.1,
        "mfu_with_update": 0.1,
        "phase_seconds": {"forward": 1 / speed},
        "padding_share": None,
        "calls_per_step": None,
        "memory": MemoryUse(1 << 30),
        "prepare_seconds": 1.0,
        "first_seconds": 1.0,
        "interleaved_group": "one",
        "turns": [1, 1],
        "sentences": [size, size],
        "seconds": [size / speed, size / speed],
        "tokens": [10 * size, 10 * size],
    }
    return SpeedRow(**vars(measured), **PROVENANCE, **{**usual, **of_row})


def failed_row(status="skipped: no reason", **changed):
    return FailedRow(**vars(cell(**changed)), **PROVENANCE, status=status)


def curve(scores, seconds=None, target=0.9, **changed):
    """A learning curve. seconds: the duration of each epoch."""
    seconds = seconds or [2.0] * len(scores)
    return Curve(**vars(cell(**changed)), **PROVENANCE, scores=scores, seconds=seconds, target=target)


def run_of(cells=(), learning=(), external=()):
    return RunRows(cells, learning, external)
