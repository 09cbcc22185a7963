"""Extras: packages that only some users need."""

from __future__ import annotations

import shlex
from importlib.metadata import PackageNotFoundError, requires


def to_install(extra: str) -> str:
    """Return the command that installs the packages of an extra.

    It names the packages themselves: neither an index nor a wheel's folder provides the program by name.
    """
    try:
        required = requires("stack-parser") or []
    except PackageNotFoundError:  # a checkout that is not installed
        return f"pip install -e '.[{extra}]'"
    parts = (requirement.partition(";") for requirement in required)
    packages = [package.strip() for package, _, marker in parts if repr(extra) in marker.replace('"', "'")]
    return f"pip install {shlex.join(packages)}"
