"""The page of a service, which draws the trees of a text that the user enters."""

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
"""Scripts in the order in which they run."""


def service_page() -> str:
    """Return the page as an HTML document, which loads its files from `page/`."""
    return rendered("service_page.html", title="stack-parser", styles=STYLES, scripts=SCRIPTS)


def service_page_files() -> dict[str, str]:
    """Return the texts of the files by name."""
    return {name: asset(name) for name in (*STYLES, *SCRIPTS)}
