"""Writes the figures of a speed run for TensorBoard. The batch size is in the place of the step."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from torch.utils.tensorboard import SummaryWriter

from parser.speed.findings import comparisons, speed_ups
from parser.speed.rows import OK, Row

BOARD = "tensorboard"
NUMBERS = ("sentences_per_second", "tokens_per_second", "mfu", "padding_share", "calls_per_step")


def write_board(rows: Sequence[Row], folder: Path) -> None:
    """Write the measured rows into the run's folder, replacing older figures."""
    shutil.rmtree(folder / BOARD, ignore_errors=True)
    with SummaryWriter(str(folder / BOARD)) as board:
        for comparison in comparisons(rows):
            for method, own in comparison.by_method().items():
                for row in own:
                    _write_row(board, f"{comparison.name}/{method}", row)
                for size, gain in speed_ups(own).items():
                    board.add_scalar(f"{comparison.name}/{method}/speed_up", gain.value, size)


def _write_row(board: SummaryWriter, tag: str, row: Row) -> None:
    assert row["status"] == OK
    for name in NUMBERS:
        if row[name] is not None:
            board.add_scalar(f"{tag}/{name}", row[name], row["batch_size"])
    for phase, seconds in row["phase_seconds"].items():
        board.add_scalar(f"{tag}/seconds_per_sentence/{phase}", seconds, row["batch_size"])
