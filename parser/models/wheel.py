"""Models as wheels (PEP 427), which pip installs.

A wheel is a Python package that contains the model. Its code is written here, and only loads the model.
Whoever installs a wheel trusts it like any package; a model in a file or a folder is not trusted, and
contains no code.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from io import BytesIO
from typing import NamedTuple

from parser.models.model_card import FRONT_MATTER, ModelCard
from parser.models.model_files import (
    CARD,
    LICENCE,
    write_package,
)
from parser.models.named_models import INSTALLED, PREFIX, SUFFIX, package_of
from parser.system.version import __version__

MODEL = f"model{SUFFIX}"
CODE = '''"""The model {name} of stack-parser."""

from pathlib import Path

MODEL = Path(__file__).with_name("{model}")


def load(device="auto"):
    """The parser, as `parser.load` gives it."""
    from parser import load as load_model

    return load_model(MODEL, device=device)
'''
TAGS = "Wheel-Version: 1.0\nGenerator: stack-parser {version}\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
METADATA = """Metadata-Version: 2.4
Name: {package}
Version: {version}
Summary: The model {name} of stack-parser, a dependency parser
License: {licence}
License-File: {licence_file}
Requires-Python: >=3.11
Requires-Dist: {needs}
Description-Content-Type: text/markdown

{description}"""


class Wheel(NamedTuple):
    package: str
    """The name of the package, by which the model is loaded."""
    file: str
    """The name that the file must have."""
    content: dict[str, bytes]
    """The members of the file."""


def wheel_of(name: str, files: Mapping[str, bytes], card: ModelCard, extras: list[str]) -> Wheel:
    """The wheel of a model. name: the model's name. files: see `contents`. extras: those of this program that
    the model needs.

    Raises ValueError for a name without letters, and for a licence that is not a line of text.
    """
    package = package_of(name)
    if package == PREFIX:
        raise ValueError(f"{name}: has no letters for the name of a package; rename the model")
    if not card.licence.isprintable():
        raise ValueError(f"{CARD}: the licence has characters that cannot be printed")
    write_package(files, model := BytesIO())
    information = f"{package}-{__version__}.dist-info"
    content = {
        f"{package}/__init__.py": CODE.format(name=package.removeprefix(PREFIX), model=MODEL).encode(),
        f"{package}/{MODEL}": model.getvalue(),
        f"{information}/METADATA": _metadata(package, files, card, extras),
        f"{information}/WHEEL": TAGS.format(version=__version__).encode(),
        f"{information}/entry_points.txt": f"[{INSTALLED}]\n{package} = {package}:MODEL\n".encode(),
        **({f"{information}/licenses/{LICENCE}": files[LICENCE]} if LICENCE in files else {}),
    }
    record = f"{information}/RECORD"
    lines = [*(_recorded(path, member) for path, member in content.items()), f"{record},,"]
    content[record] = ("\n".join(lines) + "\n").encode()
    return Wheel(package, f"{package}-{__version__}-py3-none-any.whl", content)


def _metadata(package: str, files: Mapping[str, bytes], card: ModelCard, extras: list[str]) -> bytes:
    text = files[CARD].decode("utf-8")
    needs = f"stack-parser[{','.join(extras)}]" if extras else "stack-parser"
    lines = METADATA.format(
        package=package,
        version=__version__,
        name=package.removeprefix(PREFIX),
        licence=card.licence,
        licence_file=LICENCE,
        needs=f"{needs}>={__version__}",
        description=FRONT_MATTER.sub("", text, count=1).lstrip(),
    )
    return lines.encode() if LICENCE in files else lines.replace(f"License-File: {LICENCE}\n", "").encode()


def _recorded(path: str, content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{path},sha256={digest},{len(content)}"
