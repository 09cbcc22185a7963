"""Python in other processes, which find the modules that this one does.

By itself Python looks in the working folder first, where a file of the user's may be called as a module of
ours or of a library: `parser.py` above all.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


def python(*arguments: str) -> list[str]:
    """The command of a process that needs `environment`, too. -P: the working folder is not searched."""
    return [sys.executable, "-P", *arguments]


def environment(**variables: str) -> dict[str, str]:
    """That of this process, with these variables, and with the folders in which it finds modules."""
    folders = os.pathsep.join(map(os.path.abspath, sys.path))
    return {**os.environ, "PYTHONPATH": folders, **variables}


@contextmanager
def environment_for_children() -> Iterator[None]:
    """While a library starts processes: its command cannot be changed, but -P is a variable, too."""
    own = environment(PYTHONSAFEPATH="1")
    # Only these two: threads may need the others meanwhile.
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
