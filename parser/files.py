"""Writing without losing what was there."""

from __future__ import annotations

import fcntl
import gzip
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO


@contextmanager
def atomic_text_file(path: str) -> Iterator[TextIO]:
    """A text file, compressed if named `.gz`, that takes its name only when all is written.

    Pipes and devices, which can not be replaced, are written directly.
    """
    if os.path.exists(path) and not os.path.isfile(path):
        with _open(path, path) as file:
            yield file
        return
    target = Path(path).resolve()  # a link stays a link
    try:
        handle, unfinished = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    except OSError as error:
        error.filename = path
        raise
    try:
        os.close(handle)
        with _open(unfinished, path) as file:
            yield file
        os.chmod(unfinished, _mode(target))
        os.replace(unfinished, target)
    finally:
        Path(unfinished).unlink(missing_ok=True)


def write_atomically(path: Path, content: bytes) -> None:
    """The file has its old content until it has the new one whole, whatever happens.

    For one writer at a time; what a killed one leaves behind, the next removes, be it a link. Raises OSError
    with the file's name.
    """
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        try:
            unfinished.unlink(missing_ok=True)
            with unfinished.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(unfinished, path)
        finally:
            unfinished.unlink(missing_ok=True)
    except OSError as error:
        error.filename = str(path)
        raise


@contextmanager
def file_lock(path: Path, otherwise: str) -> Iterator[None]:
    """This process alone is within; the lock ends with it, however it does.

    Raises ValueError with what to say `otherwise`, if another process is.
    """
    with path.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(otherwise) from None
        yield


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
