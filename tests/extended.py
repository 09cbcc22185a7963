"""Marks of tests that `make test` leaves out."""

import pytest
from hypothesis import settings

COMPILES = [pytest.mark.extended, pytest.mark.filterwarnings("default")]
"""Marks of tests that call `torch.compile`, which warns about its own code."""


def first_of(values, count=1):
    """The values, for `pytest.mark.parametrize`: all but the first ones are for `make test-all`."""
    values = list(values)
    return [*values[:count], *(pytest.param(value, marks=pytest.mark.extended) for value in values[count:])]


def extended(*cases):
    """Like `first_of`, but all cases are for `make test-all`. cases: tuples of values."""
    return [pytest.param(*case, marks=pytest.mark.extended) for case in cases]


def examples(number):
    """Settings of hypothesis: `number` examples if the profile has 30, and in proportion otherwise."""
    return settings(max_examples=max(1, number * settings.default.max_examples // 30))
