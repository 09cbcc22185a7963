"""What is said where a package is missing that the parts for spaCy need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from parser.system.extras import to_install


@contextmanager
def naming_missing(part: str) -> Iterator[None]:
    """Says of a missing package what needs it, and how it gets there. Raises ImportError."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ImportError(
            f"{part} needs {error.name}, which is not installed for this Python: {to_install('spacy')}"
        ) from error
