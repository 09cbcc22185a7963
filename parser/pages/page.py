"""Pages from the templates of this folder, each in one file: nothing is loaded from elsewhere."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from importlib.resources import files

CONTROLS = dict.fromkeys({*range(32), *range(127, 160)} - set(map(ord, "\t\n\r")), "�")
"""Characters that no page may have, and what is shown for them."""
COMPACT = {"ensure_ascii": False, "separators": (",", ":")}


def rendered(template: str, **values: object) -> str:
    """The text of a template, such as `trees_page.html`, in which all values are escaped."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined  # only where something is drawn

    environment = Environment(
        autoescape=True,
        finalize=_without_controls,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=FunctionLoader(asset),
    )
    environment.policies["json.dumps_kwargs"] = COMPACT
    environment.globals.update(asset=asset, digest=_digest)
    environment.filters["base64"] = _base64
    return environment.get_template(template).render(values)


def _without_controls(value: object) -> object:
    return value.translate(CONTROLS) if isinstance(value, str) else value


def asset(name: str) -> str:
    """The text of a file of this package, such as `page.css`."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _digest(name: str) -> str:
    """The hash by which the policy of a page allows a script or a style."""
    return _base64(sha256(asset(name).encode()).digest())


def _base64(content: bytes) -> str:
    return b64encode(content).decode()
