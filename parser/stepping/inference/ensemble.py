"""An ensemble: several parsers that take the same transitions, by the mean of their scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from parser.stepping.inference.stepper import InferenceStepper
from parser.stepping.positions import Positions


class Member(NamedTuple):
    parsers: InferenceStepper
    number: Tensor
    """[transitions + 1] The member's own number of each transition of the ensemble, and of `no_op`."""


class EnsembleInference:
    """An `InferenceStepper`. The mean of scores is, up to a constant, that of log probabilities."""

    def __init__(self, members: Sequence[Member]):
        self._members = members

    def reserve(self, depth: int) -> bool:
        moved = [member.parsers.reserve(depth) for member in self._members]
        return any(moved)

    def restart(self, which: Tensor, positions: Positions) -> None:
        for member in self._members:
            member.parsers.restart(which, positions)

    def scores(self, positions: Positions) -> Tensor:
        first, *others = (
            member.parsers.scores(positions).index_select(1, member.number[:-1]) for member in self._members
        )
        return sum(others, first) / len(self._members)

    def advance(self, transitions: Tensor, positions: Positions) -> None:
        for member in self._members:
            member.parsers.advance(member.number.index_select(0, transitions), positions)
