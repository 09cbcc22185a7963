"""Pages with figures between two lines, the marks `<!-- rows: NAME -->` and `<!-- end -->`."""

from __future__ import annotations

import re
from collections.abc import Mapping

BEGIN = re.compile(r"^<!-- rows: (\S+) -->$", re.MULTILINE)
END = re.compile(r"^<!-- end -->$", re.MULTILINE)
MARKED = re.compile(r"^(<!-- rows: (\S+) -->\n)(.*?)^(<!-- end -->)$", re.MULTILINE | re.DOTALL)


def names_in(text: str) -> list[str]:
    """The names of the figures of a page. Raises ValueError for a mark without its other one."""
    found = MARKED.findall(text)
    begins, ends = len(BEGIN.findall(text)), len(END.findall(text))
    if begins != ends or len(found) != begins or any(BEGIN.search(shown) for _, _, shown, _ in found):
        raise ValueError("each mark `<!-- rows: NAME -->` needs an `<!-- end -->` before the next one")
    return [name for _, name, _, _ in found]


def with_figures(text: str, figures: Mapping[str, str]) -> str:
    """The page with these figures. figures: by their names. Raises ValueError if one is missing."""
    if missing := [name for name in names_in(text) if name not in figures]:
        raise ValueError(f"there is no figure {missing[0]}")
    return MARKED.sub(lambda match: f"{match[1]}\n{figures[match[2]]}\n\n{match[4]}", text)


def without_figures(text: str) -> str:
    """The page without what stands between marks."""
    return MARKED.sub("", text)
