"""Rows of measurements, the commit of the code that they measure, and their files of JSON lines.

The files can be compressed.
"""

from __future__ import annotations

import gzip
import hashlib
import inspect
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar

from pydantic import TypeAdapter, ValidationError

from parser.config.data_folder import data_path
from parser.evaluation.statistics import Estimate
from parser.speed.measuring.cells import Cell
from parser.speed.tasks.discovery import find
from parser.speed.tasks.plugin import AnyPlugin
from parser.system.files import complete_gzip, write_atomically
from parser.system.provenance import stamp
from parser.system.pytorch import MemoryUse
from parser.system.settings import fault_lines
from parser.system.version import commit_of, program_commit

OK, SKIPPED, WRONG = "ok", "skipped", "wrong"
"""Beginnings of a row's status. Other statuses are `error`, `out of memory` and `timeout`."""


@dataclass(frozen=True)
class ExternalProgram:
    """Another program, as given in the config."""

    name: str
    command: str
    pattern: str
    task: str = ""

    @property
    def identity(self) -> str:
        return json.dumps([self.name, self.command, self.pattern, self.task])


@dataclass(frozen=True)
class Versions:
    parser: str
    python: str
    torch: str
    cuda: str | None = None
    cudnn: str | None = None


@dataclass(frozen=True)
class Machine:
    cpu: str
    vectors: str
    """The vector instructions that PyTorch uses."""
    cores: int | None
    gpus: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """When, with which versions and on which machine something was measured, as returned by `stamp`."""

    date: str
    commit: str | None
    versions: Versions
    machine: Machine
    gpu_limits: Sequence[Mapping[str, str]] = ()


@dataclass(frozen=True, kw_only=True)
class FailedRow(Provenance, Cell):
    """A cell that was skipped, or that could not be measured."""

    status: str
    traceback: str = ""
    only: str = ""


@dataclass(frozen=True, kw_only=True)
class MeasuredRow(Provenance, Cell):
    """A cell that was measured completely."""

    status: str = OK
    data: Mapping[str, str] = field(default_factory=dict)
    """The SHA-256 of each file and folder in the settings."""
    plugin_commit: str | None = None
    """The commit of the plugin's repository; None for the program's own repository."""


@dataclass(frozen=True, kw_only=True)
class SpeedRow(MeasuredRow):
    """The speed of a cell. Confidence intervals have a level of 95 %."""

    sentences_per_second: float
    """The median over turns, like `tokens_per_second`."""
    interval: tuple[float, float]
    quartiles: tuple[float, float]
    tokens_per_second: float
    tokens_interval: tuple[float, float]
    operations_per_second: float
    ceiling: float
    """Operations per second of the machine's large matrix products. MFU is a share of this speed."""
    mfu: float
    """Computed without the time of the parameter update."""
    mfu_with_update: float
    phase_seconds: Mapping[str, float]
    """Seconds for each sentence by phase, from one turn."""
    padding_share: float | None
    calls_per_step: float | None
    counts: Mapping[str, float] = field(default_factory=dict)
    memory: MemoryUse
    prepare_seconds: float
    first_seconds: float
    """Seconds of the check of the results, including compilation and graph capture."""
    interleaved_group: str
    """Rows with the same value were measured interleaved: their n-th turns ran one after the other."""
    turns: Sequence[int]
    """The number of steps in each turn."""
    seconds: Sequence[float]
    """The seconds of each step of all turns. `sentences` and `tokens` are also given for each step."""
    sentences: Sequence[int]
    tokens: Sequence[int]
    only: str = ""
    """The filter given to the command."""
    busy_cores: float | None = None
    """The most cores that other programs used, sampled between turns; None if the system does not say."""

    @property
    def speed(self) -> Estimate:
        """Sentences per second."""
        return Estimate(self.sentences_per_second, *self.interval)

    @property
    def turn_speeds(self) -> list[float]:
        """Sentences per second of each turn, from the times of the steps."""
        speeds, start = [], 0
        for steps in self.turns:
            end = start + steps
            speeds.append(sum(self.sentences[start:end]) / sum(self.seconds[start:end]))
            start = end
        return speeds

    def share(self, phase: str) -> float:
        """Return the share of a phase in the time of a step."""
        return self.phase_seconds.get(phase, 0.0) / sum(self.phase_seconds.values())


@dataclass(frozen=True, kw_only=True)
class LearningRow(MeasuredRow):
    """A cell that was trained: the seconds of each epoch, and the score after it."""

    seconds: Sequence[float]
    scores: Sequence[float]
    notes: Mapping[str, float] = field(default_factory=dict)
    """Further figures of the plugin."""


@dataclass(frozen=True, kw_only=True)
class ExternalRow(Provenance, ExternalProgram):
    """The sentences per second that another program printed in each turn."""

    status: str = OK
    speeds: Sequence[float] = ()


CellRow: TypeAlias = SpeedRow | FailedRow
RowT = TypeVar("RowT", bound=SpeedRow | LearningRow | ExternalRow | FailedRow)


def new_row(kind: type[RowT], what: Cell | ExternalProgram, **measured: Any) -> RowT:
    """Return a row for a measurement on this machine, with the current date and versions."""
    return TypeAdapter(kind).validate_python({**vars(what), **measured, **stamp()})


class RowFile(Generic[RowT]):
    """A file with one JSON line for each row. A line is written completely, or not at all.

    If the file does not exist, but one of that name with `.gz` does, that one is read, and unpacked when a
    row is added.
    """

    def __init__(self, path: Path, measured: type[RowT], failed: type[RowT]):
        """measured, failed: the classes of rows with status `ok` and with other statuses. Raises ValueError
        for other content.
        """
        self._path, self._measured, self._failed = path, TypeAdapter(measured), TypeAdapter(failed)
        content = read_content(path)
        end = content.rfind(b"\n") + 1  # an incomplete last line is from a run that was killed
        self._lines = content[:end]
        rows = (self._row(number, line) for number, line in enumerate(self._lines.splitlines(), 1))
        self._rows = {row.identity: row for row in rows}

    @property
    def rows(self) -> list[RowT]:
        """The last row of each cell or program."""
        return list(self._rows.values())

    def find(self, what: Cell | ExternalProgram) -> RowT | None:
        """Return the last row of a cell or program."""
        return self._rows.get(what.identity)

    def of(self, which: Iterable[Cell | ExternalProgram]) -> list[RowT]:
        """Return the last rows of cells or programs, leaving out those without a row."""
        return [row for row in map(self.find, which) if row]

    def add(self, row: RowT) -> None:
        """Write a row to disk."""
        content = {name: value for name, value in asdict(row).items() if value != ()}
        line = json.dumps(content, ensure_ascii=False).encode() + b"\n"
        if not self._path.exists():
            write_atomically(self._path, self._lines)
        with self._path.open("r+b") as file:
            file.seek(len(self._lines))
            file.write(line)
            file.truncate()
            file.flush()
            os.fsync(file.fileno())
        self._lines += line
        self._rows[row.identity] = row

    def _row(self, number: int, line: bytes) -> RowT:
        try:
            content = json.loads(line)
            kind = self._measured if content["status"] == OK else self._failed
            return kind.validate_python(content)
        except ValidationError as error:
            why = ", ".join(fault_lines(error))
        except (ValueError, KeyError, TypeError):
            why = "no JSON object with a status"
        raise ValueError(f"{self._path}:{number}: not a row of measurements: {why}; move the file away")


def has_rows(path: Path) -> bool:
    """Return whether the file exists, compressed or not."""
    return path.is_file() or _compressed(path).is_file()


def _compressed(path: Path) -> Path:
    return path.with_name(f"{path.name}.gz")


def read_content(path: Path) -> bytes:
    """Return the bytes of a file, or of its compressed form if only that exists; empty if neither exists.

    Raises ValueError for a damaged compressed file.
    """
    if path.exists() or not _compressed(path).exists():
        return path.read_bytes() if path.exists() else b""
    with complete_gzip(_compressed(path)), gzip.open(_compressed(path)) as file:
        return file.read()


def origin(cell: Cell) -> dict[str, Any]:
    """Return the fields `data` and `plugin_commit` of a cell's row."""
    return {"data": data_checksums(cell.settings), "plugin_commit": plugin_commit(find(cell.plugin))}


def plugin_commit(plugin: type[AnyPlugin]) -> str | None:
    """Return the commit of the repository of the plugin's module; None for the program's own repository, or
    if there is none.
    """
    commit = commit_of(Path(inspect.getfile(plugin)).resolve())
    return None if commit == program_commit() else commit


def data_checksums(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the SHA-256 of each file and folder that the settings name, by its name in the settings."""
    return {name: _checksum(Path(data_path(name))) for name in _paths(settings)}


def _paths(settings: Any) -> Iterator[str]:
    if isinstance(settings, Mapping):
        settings = list(settings.values())
    if isinstance(settings, Sequence) and not isinstance(settings, str):
        for each in settings:
            yield from _paths(each)
    elif isinstance(settings, str) and "/" in settings and Path(data_path(settings)).exists():
        yield settings


@cache
def _checksum(path: Path) -> str:
    """Return the SHA-256 of a file. That of a folder is of the lines of `sha256sum` of its files, by path."""
    if path.is_dir():
        files = sorted(each for each in path.rglob("*") if each.is_file())
        lines = [f"{_checksum(each)}  {each.relative_to(path)}\n" for each in files]
        return hashlib.sha256("".join(lines).encode("utf-8", "surrogateescape")).hexdigest()
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
