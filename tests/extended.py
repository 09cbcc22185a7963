"""Parameters of which `make test` takes the first."""

import pytest


def first_of(values):
    """The values, for `pytest.mark.parametrize`: all but the first are for `make test-all`."""
    first, *others = values
    return [first, *(pytest.param(value, marks=pytest.mark.extended) for value in others)]
