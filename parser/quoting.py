"""Quoting in messages what stands in a file, however long or strange it is."""

from __future__ import annotations

MAX_QUOTE_LENGTH = 60
"""Characters."""


def quoted(text: str) -> str:
    """In quotes, cut where it is long, with escapes for what can not be printed."""
    return repr(shortened(text))


def shortened(text: str) -> str:
    """Cut where it is long."""
    return text if len(text) <= MAX_QUOTE_LENGTH else f"{text[:MAX_QUOTE_LENGTH]}…"
