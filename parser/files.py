"""Writing without losing what was there."""

from __future__ import annotations

import gzip
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

RUN_MARK = "metrics.jsonl"


@contextmanager
def whole_file(path: str) -> Iterator[TextIO]:
    """A text file, compressed if named `.gz`, that takes its name only when all is written.

    Pipes and devices, which can not be replaced, are written directly.
    """
    if os.path.exists(path) and not os.path.isfile(path):
        with _open(path, path) as file:
            yield file
        return
    target = Path(path).resolve()  # a link stays a link
    handle, unfinished = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    os.close(handle)
    try:
        with _open(unfinished, path) as file:
            yield file
        os.chmod(unfinished, _mode(target))
        os.replace(unfinished, target)
    finally:
        Path(unfinished).unlink(missing_ok=True)


def _open(path: str, name: str) -> TextIO:
    how = {"encoding": "utf-8", "errors": "surrogateescape", "newline": ""}
    return gzip.open(path, "wt", **how) if name.endswith(".gz") else open(path, "w", **how)  # type: ignore


def _mode(path: Path) -> int:
    """The permissions that a file has, or that a new one would get."""
    if path.exists():
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def make_way(run: Path) -> Path | None:
    """Move a folder that holds an earlier run aside; returns where to, or None if there was nothing to move.

    Raises ValueError for a folder that holds other things.
    """
    if not run.exists() or (run.is_dir() and not any(run.iterdir())):
        return None
    if not (run / RUN_MARK).is_file():
        raise ValueError(f"{run}: holds something that is not a run; choose another folder with --run")
    run = run.resolve()
    number = 1
    while (aside := run.with_name(f"{run.name}.{number}")).exists():
        number += 1
    run.rename(aside)
    return aside
