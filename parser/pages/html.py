"""Pieces of HTML for reports. All texts are escaped."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Collection, Iterable, Sequence
from html import escape

BAR_WIDTH, BAR_HEIGHT = 120, 10
"""Pixels."""
FIGURE_SPACE = "\u2007"
"""As wide as a digit."""


class Html(str):
    """Text that is HTML already."""


def section(name: str, *parts: str, note: str = "") -> str:
    """A part of a page with a heading. note: text below it."""
    below = f'<p class="note">{escape(note)}</p>' if note else ""
    return f"<section><h2>{escape(name)}</h2>{below}{''.join(parts)}</section>"


def table(header: Sequence[str], rows: Iterable[Sequence[str]], texts: Collection[str] = ()) -> str:
    """The first cell of each row is its heading. texts: columns of text, which others than numbers are."""
    kinds = [' class="text"' if name in texts else "" for name in header]
    head = "".join(
        f'<th scope="col"{kind}>{escape(name)}</th>' for name, kind in zip(header, kinds, strict=True)
    )
    body = "".join(_row(row, kinds) for row in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _row(cells: Sequence[str], kinds: Sequence[str]) -> str:
    first, *others = zip(map(_content, cells), kinds, strict=True)
    values = "".join(f"<td{kind}>{cell}</td>" for cell, kind in others)
    return f'<tr><th scope="row">{first[0]}</th>{values}</tr>'


def _content(cell: str) -> str:
    return cell if isinstance(cell, Html) else escape(cell)


def bar(share: float) -> Html:
    """A share, between 0 and 1, as the length of a bar beside its number."""
    width = BAR_WIDTH * min(1.0, max(0.0, share))
    size = f'width="{BAR_WIDTH}" height="{BAR_HEIGHT}"'
    drawn = f'<rect width="{width:.1f}" height="{BAR_HEIGHT}"/>'
    number = f"{100 * share:5.1f}".replace(" ", FIGURE_SPACE)
    return Html(f'<svg class="bar" {size} aria-hidden="true">{drawn}</svg> {number} %')


def picture(svg: bytes, description: str) -> str:
    """A drawing as an image, in which no script can run."""
    source = f"data:image/svg+xml;base64,{b64encode(svg).decode()}"
    return f'<img class="picture" src="{source}" alt="{escape(description)}">'


def tree_places(key: str, headings: Iterable[str]) -> str:
    """Where `report_page.js` draws the trees of this key in the data of the page, each under its heading."""
    return "".join(
        f'<article class="card"><h3>{escape(heading)}</h3>'
        f'<div class="wide tree-place" data-trees="{escape(key)}" data-number="{number}"></div></article>'
        for number, heading in enumerate(headings)
    )
