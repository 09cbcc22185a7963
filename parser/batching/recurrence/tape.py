"""Calls that are written down once and run for every chunk, and sums that are written onto such a tape."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from parser.batching.product import add_product, write_product


class Tape:
    def __init__(self) -> None:
        self._calls: list[Callable[[], object]] = []

    def write(self, function: Callable[..., object], *arguments: Any, **named: Any) -> None:
        self._calls.append(partial(function, *arguments, **named))

    def run(self) -> None:
        for call in self._calls:
            call()


class TapeSum:
    """Contributions that are added up in `place`, unless there is one alone, which can be had as it is."""

    def __init__(self, tape: Tape, place: Tensor, started: bool):
        """started: whether something is in the place already, to which the others are added."""
        self._tape, self._place = tape, place
        self._found = place if started else None

    @property
    def found(self) -> Tensor | None:
        """The sum: the place, or the only contribution; None if there was none."""
        return self._found

    def add(self, rows: Tensor) -> None:
        if self._found is None:
            self._found = rows
        else:
            self._tape.write(torch.add, self._found, rows, out=self._place)
            self._found = self._place

    def add_times(self, left: Tensor, right: Tensor) -> None:
        """Element by element."""
        if self._found is None:
            self._tape.write(torch.mul, left, right, out=self._place)
        else:
            self._tape.write(torch.addcmul, self._found, left, right, out=self._place)
        self._found = self._place

    def add_product(self, left: Tensor, right: Tensor) -> None:
        """left @ right.T; left: [rows, k], right: [columns, k]."""
        if self._found is None:
            self._tape.write(write_product, self._place, left, right)
        else:
            self.settle()
            self._tape.write(add_product, self._place, left, right)
        self._found = self._place

    def settle(self) -> None:
        """In the place, whatever there was."""
        if self._found is None:
            self._tape.write(self._place.zero_)
        elif self._found is not self._place:
            self._tape.write(self._place.copy_, self._found)
        self._found = self._place
