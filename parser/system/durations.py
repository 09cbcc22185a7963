"""How long something takes, in words."""

from __future__ import annotations


def in_words(seconds: float) -> str:
    """As `a few seconds`, `about 40 s`, `about 12 min` or `about 2.5 h`."""
    if seconds < 10:
        return "a few seconds"
    if seconds < 90:
        return f"about {round(seconds, -1):.0f} s"
    if seconds < 90 * 60:
        return f"about {seconds / 60:.0f} min"
    return f"about {seconds / 3600:.1f} h"
