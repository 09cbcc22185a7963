"""Quoting the content of files in messages."""

from __future__ import annotations

MAX_QUOTE_LENGTH = 60
"""Characters; longer text is truncated."""


def quoted(text: str) -> str:
    """Quote text, truncated if it is long, with escapes for characters that cannot be printed."""
    return repr(shortened(text))


def shortened(text: str, length: int = MAX_QUOTE_LENGTH) -> str:
    """Truncate text if it is longer than `length` characters."""
    return text if len(text) <= length else f"{text[:length]}…"
