"""Renders pages from the templates in this folder, each in one file that loads nothing from elsewhere."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from importlib.resources import files

CONTROLS = dict.fromkeys({*range(32), *range(127, 160)} - set(map(ord, "\t\n\r")), "�")
"""Characters that are not allowed in pages, and their replacements."""
COMPACT = {"ensure_ascii": False, "separators": (",", ":")}


def rendered(template: str, **values: object) -> str:
    """Return a template, such as `trees_page.html`, filled with values, all of which are escaped."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined  # imported only to render

    def without_controls(value: object) -> object:
        return value.translate(CONTROLS) if isinstance(value, str) else value

    def digest(name: str) -> str:
        """The hash by which the content security policy of a page allows a script or a style."""
        return _base64(sha256(asset(name).encode()).digest())

    environment = Environment(
        autoescape=True,
        finalize=without_controls,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=FunctionLoader(asset),
    )
    environment.policies["json.dumps_kwargs"] = COMPACT
    environment.globals.update(asset=asset, digest=digest)
    environment.filters["base64"] = _base64
    return environment.get_template(template).render(values)


def asset(name: str) -> str:
    """Return the text of a file in this package, such as `page.css`."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _base64(content: bytes) -> str:
    return b64encode(content).decode()
