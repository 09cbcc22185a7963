"""Trained models, and parsing with them."""

from numbers import Integral

BATCH_SIZE = 256
"""Sentences that are parsed at the same time, if nothing else is asked for."""


def refuse_batch_size(batch_size: object) -> None:
    """Raises ValueError if it is no number of sentences."""
    if isinstance(batch_size, bool) or not isinstance(batch_size, Integral) or batch_size < 1:
        raise ValueError(f"batch_size is {batch_size!r}; it should be a whole number, at least 1")
