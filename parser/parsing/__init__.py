"""Parsing by trained models."""

from numbers import Integral

BATCH_SIZE = 256
"""The default for the number of sentences that are parsed at the same time."""


def refuse_count(name: str, value: object) -> None:
    """Raises ValueError if the value is not a whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise ValueError(f"{name} is {value!r}; it should be a whole number, at least 1")
