"""An output file that a later start of the same command goes on with.

FILE.part holds what is written so far, and FILE.part.json says how many of its bytes are valid, and what the
writer needs to go on after them. FILE appears when it is complete; then the other two are gone.
"""

from __future__ import annotations

import gzip
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import Any

from parser.system.console import warn
from parser.system.files import file_lock, real_path, refuse_unwritable, write_atomically

PART, RECORD = ".part", ".part.json"
"""Suffixes of the names of the two files."""
SECONDS_BETWEEN_RECORDS = 1.0
"""A record waits for the disk. So much work is lost at most, and one write more."""


def names_of_unfinished(path: str) -> tuple[Path, Path]:
    """The paths of the unfinished file and of its record."""
    target = real_path(path)  # a symbolic link is kept, and its target is replaced
    return target.with_name(target.name + PART), target.with_name(target.name + RECORD)


class UnfinishedFile:
    """See `unfinished_file`."""

    def __init__(self, file: FileIO, part: Path, record: Path, is_compressed: bool):
        self.part = part
        self._file, self._record, self._is_compressed = file, record, is_compressed
        self._kept, self._recorded = 0, time.monotonic()
        self.state = self._found()
        """What an earlier start has kept; None if there is nothing to go on with."""
        if self.state is None:
            self.begin_anew()
        else:
            self.discard_rest()

    def _found(self) -> Any:
        size = self._file.seek(0, os.SEEK_END)
        try:
            record = json.loads(self._record.read_bytes())
            if not 0 <= record["bytes"] <= size:
                raise ValueError("bytes are missing")
        except FileNotFoundError:
            if size:
                raise ValueError(
                    f"{self.part}: is of something else; move it, or choose another name"
                ) from None
            return None
        except (ValueError, KeyError, TypeError):
            warn(f"{self.part}: is damaged, so this begins anew")
            return None
        self._kept = record["bytes"]
        return record["state"]

    def begin_anew(self) -> None:
        self.state, self._kept = None, 0
        self._write_record(None)
        self.discard_rest()

    def discard_rest(self) -> None:
        """Discard what was written after the last record."""
        self._file.truncate(self._kept)
        self._file.seek(self._kept)

    def write(self, content: bytes) -> None:
        """Write content. If the file is compressed, it can be decompressed after each call."""
        if content:
            self._write(gzip.compress(content, mtime=0) if self._is_compressed else content)

    def keep(self, state: Any) -> None:
        """Make what is written so far last, with a state to go on from, unless this was done just now."""
        if time.monotonic() - self._recorded >= SECONDS_BETWEEN_RECORDS:
            os.fsync(self._file.fileno())
            self._kept = self._file.tell()
            self._write_record(state)

    def complete(self, target: Path) -> None:
        """Give the file its name."""
        if self._is_compressed and not self._file.tell():
            self._write(gzip.compress(b"", mtime=0))
        os.fsync(self._file.fileno())
        if target.exists():
            self.part.chmod(target.stat().st_mode & 0o777)
        os.replace(self.part, target)
        self._record.unlink()

    def leave(self) -> None:
        """Leave what is worth going on with."""
        with suppress(OSError):
            if self._kept:
                self.discard_rest()  # it may take most of a full disk
                warn(f"{self.part}: has what is done; the same command goes on from there")
            else:
                self.part.unlink()
                self._record.unlink()

    def _write(self, content: bytes) -> None:
        # Without a buffer, which would try again on a full disk when it is closed.
        rest = memoryview(content)
        while rest:
            rest = rest[self._file.write(rest) :]

    def _write_record(self, state: Any) -> None:
        write_atomically(self._record, json.dumps({"bytes": self._kept, "state": state}).encode())
        self._recorded = time.monotonic()


@contextmanager
def unfinished_file(path: str) -> Iterator[UnfinishedFile]:
    """Open a file that appears under its name when it is complete; see above.

    It is compressed if its name ends in `.gz`. Raises what `refuse_unwritable` raises, and ValueError if
    another process writes the file.
    """
    refuse_unwritable(path)
    part, record = names_of_unfinished(path)
    try:
        with (
            file_lock(part, f"{path}: another process writes it"),
            part.open("r+b", buffering=0) as file,
        ):
            unfinished = UnfinishedFile(file, part, record, path.endswith(".gz"))
            try:
                yield unfinished
            except BaseException:
                unfinished.leave()
                raise
            unfinished.complete(real_path(path))
    except OSError as error:
        if error.filename in (str(part), str(record)):
            error.filename = path
        raise
