"""Reductions of lists."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parser.speed.tasks.lists.list_reduction_plugin import (
    LONGEST_LIST,
    OPERATIONS,
    Reduction,
    make_reductions,
    reduce,
)

MEAN, EVEN_MINUS_ODD, RANGE, LENGTH = range(4)
DIGITS = st.lists(st.integers(0, 9), min_size=1, max_size=LONGEST_LIST)


@pytest.mark.parametrize(
    ("operation", "digits", "expected"),
    [
        (MEAN, [7], 7),
        (MEAN, [1, 2, 3], 2),
        (MEAN, [1, 1, 2], 1),
        (MEAN, [1, 2, 2], 2),
        (MEAN, [2, 3], 2),  # 2.5: half to even
        (MEAN, [3, 4], 4),  # 3.5
        (EVEN_MINUS_ODD, [9, 0, 8], 8),  # 8.5
        (EVEN_MINUS_ODD, [6], 6),
        (EVEN_MINUS_ODD, [0, 9], 1),  # -9
        (EVEN_MINUS_ODD, [1, 3, 2], 8),  # -1.5 becomes -2
        (EVEN_MINUS_ODD, [1, 1, 0], 0),  # -0.5 becomes 0
        (RANGE, [5], 0),
        (RANGE, [3, 9, 0, 4], 9),
        (LENGTH, [0], 1),
        (LENGTH, [1] * 9, 9),
        (LENGTH, [1] * 10, 0),
    ],
)
def test_every_operation(operation, digits, expected):
    assert reduce(operation, digits) == expected


def nearest_even(numerator: int, denominator: int) -> int:
    """The rounded quotient, computed with integers only."""
    below, rest = divmod(numerator, denominator)
    if 2 * rest == denominator:
        return below + below % 2
    return below + (2 * rest > denominator)


@given(DIGITS)
def test_means(digits):
    even, odd = digits[0::2], digits[1::2] or [0]
    assert reduce(MEAN, digits) == nearest_even(sum(digits), len(digits)) % 10
    common = math.lcm(len(even), len(odd))
    difference = sum(even) * common // len(even) - sum(odd) * common // len(odd)
    assert reduce(EVEN_MINUS_ODD, digits) == nearest_even(difference, common) % 10


@given(st.integers(0, 3), DIGITS)
def test_results_are_digits(operation, digits):
    found = reduce(operation, digits)
    assert type(found) is int
    assert 0 <= found <= 9


@pytest.mark.parametrize(
    ("operation", "digits", "message"),
    [
        (4, [1], "there is no operation 4: the last is 3"),
        (-1, [1], "there is no operation -1"),
        (LENGTH, [], "a list needs at least one digit"),
        (LENGTH, [3, 10], "10 is not a digit"),
        (LENGTH, [-1], "-1 is not a digit"),
    ],
)
def test_what_can_not_be_reduced(operation, digits, message):
    with pytest.raises(ValueError, match=message):
        reduce(operation, digits)


@given(st.integers(0, 30), st.integers(0, 1000), st.integers(1, 12))
def test_made_ones_are_right(number, seed, longest):
    made = make_reductions(number, seed, longest)
    assert len(made) == number
    assert made == [Reduction(each.operation, each.digits, reduce(*each[:2])) for each in made]
    assert all(1 <= len(each.digits) <= longest for each in made)


def test_operations_lengths_and_digits_are_even():
    made = make_reductions(9000, seed=1)
    seen = (
        Counter(each.operation for each in made),
        Counter(len(each.digits) for each in made),
        Counter(digit for each in made for digit in each.digits),
    )
    for counts, values in zip(
        seen, (range(len(OPERATIONS)), range(1, LONGEST_LIST + 1), range(10)), strict=True
    ):
        assert set(counts) == set(values)
        assert max(counts.values()) < 1.2 * min(counts.values())


def test_every_result_occurs():
    assert {each.result for each in make_reductions(500, seed=1)} == set(range(10))


def test_the_seed_decides():
    assert make_reductions(20, seed=1) == make_reductions(20, seed=1)
    assert make_reductions(20, seed=1) != make_reductions(20, seed=2)


def test_lists_of_no_length():
    with pytest.raises(ValueError, match="longest must be at least 1, not 0"):
        make_reductions(3, seed=1, longest=0)
