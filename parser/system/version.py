"""Which program this is: its version, its commit, and how the packages of its extras are installed."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

__version__ = "1.0.0"


def program_commit() -> str | None:
    """Return the commit of the running source, see `commit_of`."""
    return commit_of(Path(__file__))


@cache
def commit_of(file: Path) -> str | None:
    """Return the commit of the checkout that contains a file, or None; with "-dirty" if it has changes.

    A file in an environment inside another project's checkout does not belong to that project.
    """
    if git(file, "ls-files", "--error-unmatch", "--", file.name) is None:
        return None
    return git(file, "describe", "--always", "--exclude=*", "--abbrev=40", "--dirty")


def git(file: Path, *command: str) -> str | None:
    """Return the output of git in the folder of a file; None if git fails or is not installed."""
    called = ["git", "-C", str(file.parent), *command]
    try:
        done = subprocess.run(called, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def to_install(extra: str) -> str:
    """Return the command that installs the packages of an extra.

    It names the packages themselves: neither an index nor a wheel's folder provides the program by name.
    """
    try:
        required = requires("stack-parser") or []
    except PackageNotFoundError:
        required = []
    parts = (requirement.partition(";") for requirement in required)
    packages = [package.strip() for package, _, marker in parts if repr(extra) in marker.replace('"', "'")]
    if not packages:  # a checkout that is not installed, or was when it had no such extra
        return f"pip install -e '.[{extra}]'"
    return f"pip install {shlex.join(packages)}"


@contextmanager
def naming_missing(what: str, extra: str) -> Iterator[None]:
    """Turn an error about a missing package into an ImportError that says what to install.

    what: begins the message, as what needs the package. extra: the one that has the package.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if str(error.name).startswith("parser."):
            raise
        raise MissingPackageError(
            f"{what} needs {error.name}, which is not installed for this Python: {to_install(extra)}"
        ) from error


class MissingPackageError(ImportError):
    """A package of an extra is not installed."""
