"""Random search (Bergstra & Bengio 2012): table rows with settings drawn from ranges."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from parser.system.settings import Count, Settings, contradiction_error

DIGITS = 2
"""Significant digits of a drawn number; more if its range is narrow."""


class RangeSettings(Settings):
    low: int | float
    high: int | float
    """Upper limit. If both limits are written without a decimal point, whole numbers are drawn."""
    scale: Literal["linear", "log"] = "linear"
    """Scale on which values are drawn. `log`: as many values between 1 and 10 as between 10 and 100."""

    @model_validator(mode="after")
    def _refuse_empty(self) -> RangeSettings:
        if self.low > self.high:
            raise contradiction_error([("low", "is above high")])
        if self.scale == "log" and self.low <= 0:
            raise contradiction_error([("low", "has no logarithm; it should be above 0")])
        return self


Choices = Annotated[list[Any], Field(min_length=1)]
RangeOrChoices = Annotated[
    Annotated[RangeSettings, Tag("<range>")] | Annotated[Choices, Tag("<choices>")],
    Discriminator(lambda value: "<choices>" if isinstance(value, list) else "<range>"),
]
"""A value of one of these types; errors are reported for one of them only."""


class SearchSettings(Settings):
    trials: Count
    """Number of rows. If it is increased later, the first rows stay the same."""
    ranges: dict[str, RangeOrChoices] = Field(min_length=1)
    """Settings to draw, by their full names: for each a range of numbers, or a list of values."""


def trials(search: SearchSettings) -> Iterator[tuple[str, dict[str, Any]]]:
    """The name of the row and the settings of each trial."""
    names = _short_names(list(search.ranges))
    for number in range(1, search.trials + 1):
        drawn = {key: _draw(own, f"{number} {key}") for key, own in search.ranges.items()}
        told = ", ".join(f"{names[key]} {value}" for key, value in drawn.items())
        yield f"trial {number}: {told}", drawn


def _short_names(keys: Sequence[str]) -> dict[str, str]:
    """The short name of each key: as many of its last parts as distinguish it from the others."""

    def ending(key: str, words: int) -> str:
        return ".".join(key.split(".")[-words:])

    def words_of(key: str) -> int:
        return next(n for n in count(1) if [ending(other, n) for other in keys].count(ending(key, n)) == 1)

    return {key: ending(key, words_of(key)) for key in keys}


def _draw(own: RangeSettings | list[Any], seed: str) -> Any:
    """Draw a value. It is the same for the same seed, whatever else is drawn."""
    generator = random.Random(seed)
    if isinstance(own, list):
        return generator.choice(own)
    if own.scale == "linear":
        drawn = generator.uniform(own.low, own.high)
    else:
        drawn = math.exp(generator.uniform(math.log(own.low), math.log(own.high)))
    if isinstance(own.low, int) and isinstance(own.high, int):
        return min(max(round(drawn), own.low), own.high)
    return min(max(_rounded(drawn, own.high - own.low), own.low), own.high)


def _rounded(number: float, width: float) -> float:
    """The number, rounded so that it keeps two digits relative to the width of its range."""
    narrow = math.floor(math.log10(abs(number) / width)) if number and width else 0
    return float(f"{number:.{DIGITS + max(0, narrow)}g}")
