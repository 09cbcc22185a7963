"""A tape of calls that is recorded once and run for every chunk, and sums recorded on such a tape."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from parser.batching.functional import add_product, write_product


class Tape:
    def __init__(self) -> None:
        self._calls: list[Callable[[], object]] = []

    def write(self, function: Callable[..., object], *arguments: Any, **named: Any) -> None:
        self._calls.append(partial(function, *arguments, **named))

    def run(self) -> None:
        for call in self._calls:
            call()


class TapeSum:
    """A sum of contributions, accumulated in `place`. A single contribution is not copied."""

    def __init__(self, tape: Tape, place: Tensor, started: bool):
        """started: whether `place` holds a partial sum already."""
        self._tape, self._place = tape, place
        self._found = place if started else None

    @property
    def value(self) -> Tensor | None:
        """The sum: `place`, or the only contribution; None without contributions."""
        return self._found

    def add(self, rows: Tensor) -> None:
        if self._found is None:
            self._found = rows
        else:
            self._tape.write(torch.add, self._found, rows, out=self._place)
            self._found = self._place

    def add_times(self, left: Tensor, right: Tensor) -> None:
        """Add the elementwise product."""
        if self._found is None:
            self._tape.write(torch.mul, left, right, out=self._place)
        else:
            self._tape.write(torch.addcmul, self._found, left, right, out=self._place)
        self._found = self._place

    def add_product(self, left: Tensor, right: Tensor) -> None:
        """Add left @ right.T; left: [rows, k], right: [columns, k]."""
        if self._found is None:
            self._tape.write(write_product, self._place, left, right)
        else:
            self.settle()
            self._tape.write(add_product, self._place, left, right)
        self._found = self._place

    def settle(self) -> None:
        """Make sure that `place` holds the sum."""
        if self._found is None:
            self._tape.write(self._place.zero_)
        elif self._found is not self._place:
            self._tape.write(self._place.copy_, self._found)
        self._found = self._place
