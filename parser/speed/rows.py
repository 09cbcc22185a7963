"""A row: the measurements of one cell."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from parser.plugins import Work
from parser.speed.measured import Finished, Started, Turn
from parser.speed.statistics import median_of, quartiles

Row = dict[str, Any]

OK, SKIPPED, WRONG = "ok", "skipped", "wrong"
"""How a row's status begins. Other statuses are `error`, `out of memory` and `timeout`."""


def measured_row(
    turns: Sequence[Turn], started: Started, finished: Finished, ceiling: float, interleaved_group: str
) -> Row:
    """The results of a cell that was measured to its end.

    ceiling: operations per second of the machine's matrix products. interleaved_group: rows with the same
    value were measured interleaved: their n-th turns ran one after the other.
    """
    sentences = [turn.sentences_per_second for turn in turns]
    tokens = [turn.tokens_per_second for turn in turns]
    speed, token_speed = median_of(sentences), median_of(tokens)
    works = [work for turn in turns for work in turn.works]
    seconds = [value for turn in turns for value in turn.seconds]
    operations_per_second = median(turn.operations_per_second for turn in turns)
    update_share = finished.phase_seconds.get("update", 0.0) / sum(finished.phase_seconds.values())
    return {
        "status": OK,
        "sentences_per_second": speed.value,
        "interval": [speed.low, speed.high],
        "quartiles": quartiles(sentences),
        "tokens_per_second": token_speed.value,
        "tokens_interval": [token_speed.low, token_speed.high],
        "operations_per_second": operations_per_second,
        "ceiling": ceiling,
        "mfu": operations_per_second / (1 - update_share) / ceiling,
        "mfu_with_update": operations_per_second / ceiling,
        "phase_seconds": finished.phase_seconds,
        "padding_share": _padding(works),
        "calls_per_step": finished.calls,
        "counts": _counts(works),
        "memory": finished.memory._asdict(),
        "prepare_seconds": started.prepare_seconds,
        "first_seconds": started.first_seconds,
        "interleaved_group": interleaved_group,
        "turns": [len(turn.seconds) for turn in turns],
        "seconds": [round(value, 7) for value in seconds],
        "sentences": [work.sentences for work in works],
        "tokens": [work.tokens for work in works],
    }


def _padding(works: Sequence[Work]) -> float | None:
    """The mean share of padding, weighted by the tokens of the batches."""
    counted = [(work.padding, work.tokens) for work in works if work.padding is not None]
    tokens = sum(size for _, size in counted)
    return sum(share * size for share, size in counted) / tokens if counted else None


def _counts(works: Sequence[Work]) -> dict[str, float]:
    """The mean of each count over the steps."""
    return {name: sum(work.counts[name] for work in works) / len(works) for name in works[0].counts}


def turn_speeds(row: Row) -> list[float]:
    """Sentences per second of each turn, from the times of a row's steps."""
    speeds, start = [], 0
    for steps in row["turns"]:
        end = start + steps
        speeds.append(sum(row["sentences"][start:end]) / sum(row["seconds"][start:end]))
        start = end
    return speeds
