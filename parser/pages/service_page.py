"""The page of a service: a text is written there, and its trees are drawn."""

from __future__ import annotations

from parser.pages.page import asset, rendered

STYLES = ("page.css", "tree.css", "tree_list.css", "service_page.css")
SCRIPTS = (
    "tree_layout.js",
    "tree_drawing.js",
    "word_box.js",
    "tree_list.js",
    "conllu_reading.js",
    "word_table.js",
    "service_client.js",
    "service_page.js",
)
"""In the order in which they run."""


def service_page() -> str:
    """An HTML document, which asks for its files below `page/`."""
    return rendered("service_page.html", title="stack-parser", styles=STYLES, scripts=SCRIPTS)


def service_page_files() -> dict[str, str]:
    """The text of each file by its name."""
    return {name: asset(name) for name in (*STYLES, *SCRIPTS)}
