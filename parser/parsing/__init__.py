"""Trained models, and parsing with them."""

from numbers import Integral

BATCH_SIZE = 256
"""Sentences that are parsed at the same time, if nothing else is asked for."""


def refuse_count(name: str, value: object) -> None:
    """Raises ValueError if it is no whole number from 1 on."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise ValueError(f"{name} is {value!r}; it should be a whole number, at least 1")
