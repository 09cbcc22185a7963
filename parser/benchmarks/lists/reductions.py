"""Lists of digits, each with an operation that reduces it to one digit (Gaunt et al. 2017, section 6)."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import NamedTuple

CLASSES = 10
LONGEST = 9
"""Digits per list. A sequence has at most ten tokens, since the first selects the operation."""


class Reduction(NamedTuple):
    operation: int
    """Its index in OPERATIONS."""
    digits: tuple[int, ...]
    result: int
    """A digit."""


def _mean(digits: Sequence[int]) -> Fraction:
    """Exact, because rounding a half depends on it. 0 for no digits."""
    return Fraction(sum(digits), len(digits) or 1)


def _even_minus_odd(digits: Sequence[int]) -> Fraction:
    """The mean at positions 0, 2, 4 … minus the mean at positions 1, 3, 5 …"""
    return _mean(digits[0::2]) - _mean(digits[1::2])


def _range(digits: Sequence[int]) -> int:
    return max(digits) - min(digits)


OPERATIONS: tuple[Callable[[Sequence[int]], Fraction | int], ...] = (_mean, _even_minus_odd, _range, len)


def reduce(operation: int, digits: Sequence[int]) -> int:
    """The exact result, rounded half to even, modulo 10 (in Python, -3 modulo 10 is 7).

    Raises ValueError for an operation that does not exist, an empty list, and numbers that are no digits.
    """
    if not 0 <= operation < len(OPERATIONS):
        raise ValueError(f"there is no operation {operation}: the last is {len(OPERATIONS) - 1}")
    if not digits:
        raise ValueError("a list needs at least one digit")
    for digit in digits:
        if not 0 <= digit <= 9:
            raise ValueError(f"{digit} is not a digit")
    return round(OPERATIONS[operation](digits)) % CLASSES


def make_reductions(number: int, seed: int, longest: int = LONGEST) -> list[Reduction]:
    """Operations, lengths from 1 to `longest`, and digits are uniformly distributed.

    Deterministic by seed.
    """
    if longest < 1:
        raise ValueError(f"longest must be at least 1, not {longest}")
    draw = random.Random(seed)
    return [_reduction(draw, longest) for _ in range(number)]


def _reduction(draw: random.Random, longest: int) -> Reduction:
    operation = draw.randrange(len(OPERATIONS))
    digits = tuple(draw.choices(range(10), k=draw.randint(1, longest)))
    return Reduction(operation, digits, reduce(operation, digits))
