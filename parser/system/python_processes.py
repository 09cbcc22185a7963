"""Runs Python in other processes that find the same modules as this one.

By default Python searches the working folder first, where a file of the user may have the name of a module
of the program or of a library, `parser.py` above all.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


def python(*arguments: str) -> list[str]:
    """Return a command to be run with `environment`. With -P the working folder is not searched."""
    return [sys.executable, "-P", *arguments]


def environment(**variables: str) -> dict[str, str]:
    """Return the environment of this process with more variables, and with the folders of its modules."""
    folders = os.pathsep.join(map(os.path.abspath, sys.path))
    return {**os.environ, "PYTHONPATH": folders, **variables}


@contextmanager
def environment_for_children() -> Iterator[None]:
    """Set variables while a library starts processes: its command is fixed, but -P is a variable, too."""
    own = environment(PYTHONSAFEPATH="1")
    # Only these two variables: threads may need the other ones meanwhile.
    before = {name: os.environ.get(name) for name in ("PYTHONPATH", "PYTHONSAFEPATH")}
    os.environ.update({name: own[name] for name in before})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
