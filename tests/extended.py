"""What `make test` leaves out."""

import pytest
from hypothesis import settings

COMPILES = [pytest.mark.extended, pytest.mark.filterwarnings("default")]
"""Of tests that call `torch.compile`, which warns of what it does itself."""


def first_of(values, count=1):
    """The values, for `pytest.mark.parametrize`: all but the first ones are for `make test-all`."""
    values = list(values)
    return [*values[:count], *(pytest.param(value, marks=pytest.mark.extended) for value in values[count:])]


def extended(*cases):
    """As `first_of`, of which none is for `make test`. cases: tuples of values."""
    return [pytest.param(*case, marks=pytest.mark.extended) for case in cases]


def examples(number):
    """Settings of hypothesis: so many examples where the profile has 30; of `make test`, as many fewer."""
    return settings(max_examples=max(1, number * settings.default.max_examples // 30))
