"""Atomic writing of files, protection against overwriting, damaged files, and file locks."""

from __future__ import annotations

import errno
import fcntl
import gzip
import os
import stat
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import BinaryIO, cast

STANDARD = "-"
"""Stands for standard input or standard output instead of a file's name."""
FileNumber = tuple[int, int]
"""The number of the device, and of the file on it."""
WRITE_BITS = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH


def refuse_to_overwrite(output: str | Path, inputs: Iterable[str | Path]) -> None:
    """Raises ValueError if an output is one of the inputs, lies in an input folder, or contains an input.

    Outputs and inputs can be links, and need not exist.
    """
    written = _numbers(output, 1)
    for source in inputs:
        read = _numbers(source, 0)
        if read[0] is None:
            continue
        if read[0] in written[1:]:
            fault = "lies in"
        elif written[0] and (written[0] in read or written[0] in _of_files_in(source, output)):
            fault = "would overwrite"
        else:
            continue
        target, kept = (
            name if str(path) == STANDARD else path
            for path, name in ((output, "standard output"), (source, "standard input"))
        )
        raise ValueError(f"{target}: {fault} {kept}, which is read; choose another name")


def _numbers(path: str | Path, standard: int) -> list[FileNumber | None]:
    """Return the numbers of a file and of the folders above it. standard: the descriptor for `STANDARD`."""
    if str(path) == STANDARD:
        return [_number(standard)]
    real = real_path(path)
    return [_number(each) for each in (real, *real.parents)]


def _number(path: Path | int) -> FileNumber | None:
    """Return the number of a file or folder; None if it does not exist, and for pipes and devices, which
    store nothing that could be overwritten.
    """
    try:
        status = os.stat(path)
    except OSError:
        return None
    keeps = stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)
    return (status.st_dev, status.st_ino) if keeps else None


def _of_files_in(folder: str | Path, output: str | Path) -> set[FileNumber | None]:
    """Return the numbers of the files in a model's folder, to which the output may be linked; none if the
    output is a folder.
    """
    if str(output) != STANDARD and os.path.isdir(output):
        return set()
    return set(map(_number, chain(Path(folder).glob("*"), Path(folder).glob("*/*"))))


def refuse_folder_of_others(run: Path, is_run: bool, earlier_file: str = "", option: str = "--run") -> None:
    """Raises ValueError if a folder, which need not exist, contains files other than those of a run.

    is_run: whether it contains a file that every run has. earlier_file: one that may exist before that
    file. option: the option that names the folder, for messages.
    """
    if os.path.lexists(run) and not run.is_dir():
        raise ValueError(f"{run}: is no folder; choose another name with {option}")
    if run.exists() and not is_run and not {path.name for path in run.iterdir()} <= {earlier_file}:
        raise ValueError(f"{run}: holds something that is not a run; choose another folder with {option}")


def refuse_unwritable(output: str | Path) -> None:
    """Raises ValueError for an output that is a folder instead of a file, PermissionError for one that is
    write-protected, and OSError for a link that leads to itself.

    A file could be replaced in spite of its own permissions: those of its folder decide. And for root, only
    the permission bits tell that a file is protected.
    """
    if os.path.isdir(output):
        raise ValueError(f"{output}: is a folder; give the name of a file")
    if os.path.islink(real_path(output)):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(output))
    if os.path.exists(output) and not (os.access(output, os.W_OK) and os.stat(output).st_mode & WRITE_BITS):
        why = "is write-protected; choose another name, or allow writing with chmod u+w"
        raise PermissionError(errno.EACCES, why, str(output))


@contextmanager
def atomic_file(path: str) -> Iterator[BinaryIO]:
    """Open a file for writing, which appears under its name only when it is complete.

    It is compressed if its name ends in `.gz`. Pipes and devices, which cannot be replaced, are written
    directly. Raises what `refuse_unwritable` raises.
    """
    refuse_unwritable(path)
    if os.path.exists(path) and not os.path.isfile(path):
        with _open(path, path) as file:
            yield file
        return
    target = real_path(path)  # a symbolic link is kept, and its target is replaced
    try:
        handle, unfinished = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    except OSError as error:
        error.filename = path
        raise
    try:
        os.close(handle)
        with _open(unfinished, path) as file:
            yield file
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(unfinished, target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~mask)
        os.replace(unfinished, target)
    finally:
        Path(unfinished).unlink(missing_ok=True)


def write_atomically(path: Path, content: bytes) -> None:
    """Replace the content of a file atomically: at any time it contains either the old or the new content.

    For files in folders of this program, by a single writer at a time. A temporary file left behind by a
    killed writer is removed. Raises OSError with the name of the file, and what `refuse_unwritable` raises.
    """
    with replaced_atomically(path) as unfinished, unfinished.open("xb") as file:
        file.write(content)


@contextmanager
def replaced_atomically(path: Path) -> Iterator[Path]:
    """The path of a file to write in the block, which then replaces `path`; see `write_atomically`."""
    refuse_unwritable(path)
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        try:
            unfinished.unlink(missing_ok=True)
            yield unfinished
            with unfinished.open("rb") as file:
                os.fsync(file.fileno())
            os.replace(unfinished, path)
        finally:
            unfinished.unlink(missing_ok=True)
    except OSError as error:
        error.filename = str(path)
        raise


def real_path(path: str | Path) -> Path:
    """Return the absolute path without links. One that leads to itself is left to whoever opens the path."""
    return Path(os.path.realpath(path))


def names_in(folder: str | Path) -> list[str]:
    """Return the names in a folder, in order. Raises ValueError with the reason if it cannot be read."""
    try:
        return sorted(os.listdir(folder))
    except OSError as error:
        raise ValueError(f"{folder}: cannot be read: {error.strerror}") from None


def utf8_lines(path: Path) -> list[str]:
    """Return the lines of a text file, without a byte-order mark. Raises ValueError with the number of a line
    that is not UTF-8.
    """
    content = content_of(path)
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n").split("\n")
    except UnicodeDecodeError:
        for number, line in enumerate(content.split(b"\n"), 1):
            with suppress(UnicodeDecodeError):
                line.decode()
                continue
            raise ValueError(f"{path}:{number}: not UTF-8; convert the file to UTF-8") from None
        raise


@contextmanager
def nameless_file(content: bytes) -> Iterator[Path]:
    """Provide content at a path, for libraries that read files only. No file is left, even after a kill."""
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.flush()
        file.seek(0)
        yield Path(f"/dev/fd/{file.fileno()}")


@contextmanager
def named_errors(path: str | Path) -> Iterator[None]:
    """Name the file in errors that reading it raises in the block, as those of opening it do."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            error.filename = "standard input" if str(path) == STANDARD else str(path)
        raise


def content_of(path: Path) -> bytes:
    """Return the bytes of a file. Raises OSError with its name, also if a disk fails."""
    with named_errors(path):
        return path.read_bytes()


def readable(path: Path) -> Path:
    """Return the path of a file that can be opened. Raises OSError with the reason, for libraries that do not
    say it.
    """
    with path.open("rb"):
        return path


@contextmanager
def complete_gzip(path: str | Path) -> Iterator[None]:
    """Raises ValueError with the name of the file if content read in the block is damaged or ends early."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path}: not a complete gzip file: {error}") from None


@contextmanager
def file_lock(path: Path, message: str) -> Iterator[None]:
    """Hold an exclusive lock on a file. The operating system releases it if the process dies.

    Raises ValueError with `message` if another process holds the lock.
    """
    with path.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(message) from None
        yield


@contextmanager
def _open(path: str, name: str) -> Iterator[BinaryIO]:
    """name: decides about compression. A compressed file contains neither its name nor the time."""
    with open(path, "wb") as file:
        if not name.endswith(".gz"):
            yield file
            return
        with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as compressed:
            yield cast(BinaryIO, compressed)
