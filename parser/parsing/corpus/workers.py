"""The work of the processes of a Ray cluster: cutting files into parts, and parsing parts.

Rows pass from cutters to workers, and from workers to the program that waits for the results. Trees do not:
workers write them to files.
"""

from __future__ import annotations

import errno
import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from parser.parsing.corpus.files import CorpusFile, NumberedPart, PartOutputs, numbered_parts
from parser.parsing.input_parts import Part
from parser.parsing.part_parser import PartParser, PartSettings
from parser.system.machine import is_of_memory
from parser.text.reading import TextFormat, TextPart
from parser.treebank.conllu import TreebankPart

MOST_ATTEMPTS = 5
"""Maximum number of attempts for a part. A part that kills each worker would otherwise be tried forever."""
RESULT = "name", "number", "is_last", "error", "is_disk_full", "seconds"
"""The columns of rows of results. The seconds for parts that were parsed together are in the row of the first
part."""
Row = dict[str, Any]


def cut_into_parts(row: Row, form: TextFormat | None) -> Iterator[Row]:
    """A row for each part of a file. row: the fields of a `CorpusFile`."""
    file = CorpusFile(**row)
    outputs = PartOutputs.of(file)
    number = 0
    try:
        for numbered in numbered_parts(file.path, form):
            number = numbered.number
            yield {**row, **_row_of(numbered, outputs), "error": ""}
    except (OSError, ValueError) as error:
        end = NumberedPart(number, True, TextPart(0, ""))
        yield {**row, **_row_of(end, outputs), "error": str(error)}


def _row_of(numbered: NumberedPart, outputs: PartOutputs) -> Row:
    """The columns of a part. Its content is left out if its trees are there."""
    part = numbered.part
    content = part.content.encode() if isinstance(part, TextPart) else part.content
    digest = hashlib.sha256(content).hexdigest()
    is_there = outputs.result(numbered.number, digest) is not None
    return {
        "number": numbered.number,
        "is_last": numbered.is_last,
        "line": part.line if isinstance(part, TreebankPart) else 0,
        "ordinal": part.ordinal if isinstance(part, TreebankPart) else 0,
        "offset": part.offset if isinstance(part, TextPart) else 0,
        "content": b"" if is_there else content,
        "digest": digest,
        "is_there": is_there,
    }


class CorpusWorker:
    """A process that holds the model."""

    def __init__(self, settings: PartSettings):
        self._form = settings.form
        self._parser = PartParser(settings)

    def __call__(self, rows: Mapping[str, Sequence[Any]]) -> Mapping[str, Sequence[Any]]:
        """Parse the parts of a block; return the columns `RESULT` of each part for the driver."""
        block = [dict(zip(rows, values, strict=True)) for values in zip(*rows.values(), strict=True)]
        for row in block:
            row.update(seconds=0.0, is_disk_full=False)
        for group in _groups([row for row in block if _is_missing(row)]):
            began = time.monotonic()
            self._parse(group)
            group[0]["seconds"] = time.monotonic() - began
        return {name: [row[name] for row in block] for name in RESULT}

    def _parse(self, group: Sequence[Row]) -> None:
        """Parse parts together and keep their trees; write errors, if any, into the rows."""
        attempts = [_outputs(row).attempt(int(row["number"])) for row in group]
        if max(attempts) > MOST_ATTEMPTS:
            _note(group, f"it has ended {MOST_ATTEMPTS} workers, perhaps because memory ran out")
            return
        try:
            parsed = list(self._parser.parse([_part_of(row, self._form) for row in group]))
            for row, part in zip(group, parsed, strict=True):
                _outputs(row).keep(int(row["number"]), row["digest"], part)
        except Exception as error:  # any error, so that other files are not affected
            if len(group) > 1 and not is_of_disk(error):
                for row in group:
                    self._parse([row])
                return
            _note(group, "out of memory" if is_of_memory(error) else _told(error))
            for row in group:
                row["is_disk_full"] = is_of_disk(error)


def _told(error: Exception) -> str:
    """The message of an error, with its type unless it is about the input or the disk."""
    is_expected = isinstance(error, (ValueError, OSError)) and str(error)
    return str(error) if is_expected else f"{type(error).__name__}: {error}"


def _note(group: Sequence[Row], error: str) -> None:
    for row in group:
        row["error"] = f"part {int(row['number']) + 1}: {error}"


def is_of_disk(error: Exception) -> bool:
    """Whether the error is one of the disk, so that no other file could be written either."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


def _is_missing(row: Row) -> bool:
    """Whether a part has to be parsed: it can be read, and its trees are not there."""
    return not (row["error"] or row["is_there"] or _outputs(row).result(int(row["number"]), row["digest"]))


def _groups(rows: Sequence[Row]) -> list[Sequence[Row]]:
    """The parts of a block that are parsed together.

    Each part is parsed alone if any was started before, since it may have killed a worker. So only that part
    is given up.
    """
    begun = any(_outputs(row).attempts(int(row["number"])) for row in rows)
    return [[row] for row in rows] if begun else [rows] if rows else []


def _outputs(row: Row) -> PartOutputs:
    return PartOutputs.of(CorpusFile(*(row[name] for name in CorpusFile._fields)))


def _part_of(row: Row, form: TextFormat | None) -> Part:
    if form:
        return TextPart(int(row["offset"]), row["content"].decode())
    return TreebankPart(int(row["line"]), int(row["ordinal"]), row["content"])
