"""An HTML document in one file: its parts are joined, and nothing is loaded from elsewhere."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Any

EMPTY_ICON = "data:,"
"""Without an icon, browsers ask a server for one."""


def asset(name: str) -> str:
    """The text of a file of this package, such as `page.css`."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def html_page(
    title: str,
    body: str,
    styles: Sequence[str],
    scripts: Sequence[str],
    data: Mapping[str, Any] | None = None,
) -> str:
    """A document that may do nothing but run its own scripts and use its own styles.

    title: plain text. body: HTML, in which the caller has escaped what is data. styles, scripts: their text.
    data: values for the scripts, each in an element with that id, as JSON.
    """
    values = "".join(
        f'<script type="application/json" id="{escape(name)}">{json_text(value)}</script>\n'
        for name, value in (data or {}).items()
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_policy(styles, scripts)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="{EMPTY_ICON}">
<title>{escape(title)}</title>
{"".join(f"<style>{style}</style>" for style in styles)}
</head>
<body>
{body}
{values}{"".join(f"<script>{script}</script>" for script in scripts)}
</body>
</html>
"""


def json_text(value: Any) -> str:
    """Compact JSON that may stand in a `script` element: no `<` is left that could end it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def _policy(styles: Iterable[str], scripts: Iterable[str]) -> str:
    """What the browser may do, with the hashes of what it may run."""
    return "; ".join(
        [
            "default-src 'none'",
            "img-src data:",
            f"style-src {_hashes(styles)}",
            f"script-src {_hashes(scripts)}",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )


def _hashes(texts: Iterable[str]) -> str:
    digests = (b64encode(sha256(text.encode()).digest()).decode() for text in texts)
    return " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"
