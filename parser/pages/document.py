"""Writes a document of tables and pictures as Markdown and as one self-contained HTML file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import NamedTuple, TypeVar

from matplotlib.figure import Figure

from parser.pages.plot_style import svg
from parser.system.files import write_atomically

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")
MARKDOWN, HTML = "report.md", "report.html"
PLOTS = "plots"
"""The folder of the pictures, next to the Markdown file."""


class Table(NamedTuple):
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    """An explanation of the columns, above the table."""


class Picture(NamedTuple):
    name: str
    figure: Figure

    @property
    def file(self) -> str:
        """The name of its file without extension and without characters not allowed in file names."""
        return re.sub(r"[^\w.-]+", "-", self.name)


class Heading(NamedTuple):
    level: int
    text: str


class Definitions(NamedTuple):
    """A list of terms and their meanings."""

    meanings: Mapping[str, str]


Part = str | Heading | Table | Picture | Definitions
"""A string is a paragraph. Paragraphs, cells and meanings can contain `code`."""


@dataclass(frozen=True)
class Section:
    title: str
    plots: Mapping[str, Figure]
    """Figures by the names of pictures."""
    tables: Sequence[Table]
    """Tables without rows are left out."""
    text: str = ""
    failures: Sequence[str] = ()
    """A sentence for each row without measurements."""

    @property
    def parts(self) -> list[Part]:
        return [
            Heading(2, self.title),
            *filter(None, [self.text]),
            *(Picture(name, figure) for name, figure in self.plots.items()),
            *(table for table in self.tables if table.rows),
            *self.failures,
        ]


def cells_at(line: Mapping[KeyT, ValueT], places: Iterable[KeyT], text: Callable[[ValueT], str]) -> list[str]:
    """Return a cell for each place: the text of the line's value there, or an empty one."""
    return [text(line[place]) if place in line else "" for place in places]


def write_document(title: str, parts: Sequence[Part], folder: Path) -> None:
    """Write MARKDOWN, which shows the files in PLOTS, and HTML, which includes the pictures.

    title: the title of the HTML page.
    """
    (folder / PLOTS).mkdir(parents=True, exist_ok=True)
    drawn = {part.file: svg(part.figure) for part in parts if isinstance(part, Picture)}
    for name, picture in drawn.items():
        write_atomically(folder / PLOTS / f"{name}.svg", picture.encode())
    write_atomically(folder / MARKDOWN, ("\n\n".join(map(_markdown, parts)) + "\n").encode())
    page = PAGE.format(title=escape(title), body="\n".join(_html(part, drawn) for part in parts))
    write_atomically(folder / HTML, page.encode())


def _markdown(part: Part) -> str:
    match part:
        case Heading(level, text):
            return f"{'#' * level} {text}"
        case Picture(name, _):
            return f"![{name}]({PLOTS}/{part.file}.svg)"
        case Table(columns, rows, note):
            lines = [columns, ["---"] * len(columns), *rows]
            escaped = [[cell.replace("|", "\\|") for cell in line] for line in lines]
            table = "\n".join("| " + " | ".join(line) + " |" for line in escaped)
            return f"{note}\n\n{table}" if note else table
        case Definitions(meanings):
            return "\n".join(f"- **{term}**: {meaning}" for term, meaning in meanings.items())
    return part


def _html(part: Part, drawn: Mapping[str, str]) -> str:
    """Return a part as HTML. drawn: SVG by the names of pictures' files."""
    match part:
        case Heading(level, text):
            return f"<h{level}>{_inline(text)}</h{level}>"
        case Picture(name, _):
            return f'<figure aria-label="{escape(name)}">{drawn[part.file]}</figure>'
        case Table(columns, rows, note):
            head = "".join(f"<th>{_inline(cell)}</th>" for cell in columns)
            body = "\n".join(
                "<tr>" + "".join(f"<td>{_inline(cell)}</td>" for cell in line) + "</tr>" for line in rows
            )
            table = f"<table><tr>{head}</tr>\n{body}</table>"
            return f"<p>{_inline(note)}</p>\n{table}" if note else table
        case Definitions(meanings):
            terms = (f"<dt>{escape(term)}</dt><dd>{_inline(text)}</dd>" for term, text in meanings.items())
            return "<dl>" + "\n".join(terms) + "</dl>"
    return f"<p>{_inline(str(part))}</p>"


def _inline(text: str) -> str:
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(text))


PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
body {{ font: 15px/1.45 sans-serif; max-width: 75em; margin: 2em auto; padding: 0 1em; }}
table {{ border-collapse: collapse; font-size: 13px; margin: 1em 0; }}
td, th {{ border-bottom: 1px solid #ccc; padding: 2px 8px; text-align: left; }}
dt {{ font-weight: bold; float: left; margin-right: 0.6em; }}
figure {{ display: inline-block; margin: 0.5em; max-width: 100%; }}
figure svg {{ max-width: 100%; height: auto; }}
</style></head><body>
{body}
</body></html>
"""
