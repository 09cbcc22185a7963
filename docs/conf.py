"""Settings of Sphinx, which makes a site of these pages: `make docs`."""

import inspect
import re
from typing import Any

from sphinx.application import Sphinx

from parser.system.version import __version__

project = "stack-parser"
author = copyright = "The stack-parser developers"
version = release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["example-plugin"]
html_theme = "furo"
html_title = f"stack-parser {version}"
html_static_path = ["site"]
html_css_files = ["tables.css"]

myst_heading_anchors = 4  # as on GitHub

python_maximum_signature_line_length = 100
autodoc_member_order = "bysource"
autoclass_content = "both"
default_role = "code"  # of `names` in docstrings


def setup(app: Sphinx) -> None:
    app.connect("autodoc-process-docstring", _list_parameters)


def _list_parameters(
    app: Sphinx, what: str, name: str, described: Any, options: Any, lines: list[str]
) -> None:
    """Make a list of the parameters that a docstring describes as `name: text`, each after the other."""
    if what not in ("function", "method", "class"):
        return
    names = "|".join(inspect.signature(described).parameters)
    if not names:
        return
    paragraphs = []
    for paragraph in "\n".join(lines).split("\n\n"):
        if re.match(rf"({names}): ", paragraph):
            text = " ".join(paragraph.split())
            text = re.sub(rf"(^|(?<=\.) )({names}): ", r"\n:param \2: ", text)
            paragraph = re.sub(r" (Raises \w+Error )", r"\n\n\1", text)
        paragraphs.append(paragraph)
    lines[:] = "\n\n".join(paragraphs).split("\n")
