"""The error message if a package is missing that the parts for spaCy need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from parser.system.version import to_install


@contextmanager
def naming_missing(part: str) -> Iterator[None]:
    """Raises ImportError if a package is missing; the message says what needs it and how to install it."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ImportError(
            f"{part} needs {error.name}, which is not installed for this Python: {to_install('spacy')}"
        ) from error
