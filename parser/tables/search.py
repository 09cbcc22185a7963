"""Random search (Bergstra & Bengio 2012): rows of a table whose settings are drawn from ranges."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from parser.settings import Count, Settings, contradiction_error

DIGITS = 2
"""Significant ones of a drawn number."""


class RangeSettings(Settings):
    low: float
    high: float
    scale: Literal["linear", "log"] = "linear"
    """`log`: as many values are drawn between 1 and 10 as between 10 and 100."""

    @model_validator(mode="after")
    def _refuse_empty(self) -> RangeSettings:
        if self.low > self.high:
            raise contradiction_error([("low", "is above high")])
        if self.scale == "log" and self.low <= 0:
            raise contradiction_error([("low", "has no logarithm; it should be above 0")])
        return self


Choices = Annotated[list[Any], Field(min_length=1)]


class SearchSettings(Settings):
    trials: Count
    """Number of rows. More of them may be asked for later: the first ones stay the same."""
    ranges: dict[str, RangeSettings | Choices] = Field(min_length=1)
    """By the full name of a setting: a range of numbers, or a list of values."""


def trials(search: SearchSettings) -> Iterator[tuple[str, dict[str, Any]]]:
    """For each trial the name of its row, and its settings."""
    for number in range(1, search.trials + 1):
        drawn = {key: _draw(own, f"{number} {key}") for key, own in search.ranges.items()}
        told = ", ".join(f"{key.rpartition('.')[2]} {value}" for key, value in drawn.items())
        yield f"trial {number}: {told}", drawn


def _draw(own: RangeSettings | list[Any], seed: str) -> Any:
    """The same value for the same seed, whatever else is drawn."""
    generator = random.Random(seed)
    if isinstance(own, list):
        return generator.choice(own)
    if own.scale == "linear":
        return _rounded(generator.uniform(own.low, own.high))
    return _rounded(math.exp(generator.uniform(math.log(own.low), math.log(own.high))))


def _rounded(number: float) -> float:
    return float(f"{number:.{DIGITS}g}")
