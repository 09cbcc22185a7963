"""Settings of Sphinx, which makes a site of these pages: `make docs`."""

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
