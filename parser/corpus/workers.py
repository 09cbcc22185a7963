"""What runs in the processes of a Ray cluster: cutting files into parts, and parsing parts.

Rows pass from one to the other, and to the program that waits for the results. Trees do not: workers write
them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from parser.batching.precision import Precision
from parser.corpus.files import CorpusFile
from parser.corpus.parts import NumberedPart, PartOutputs, numbered_parts
from parser.machine import tune_process
from parser.parsing.part_parser import PartParser
from parser.text.parts import TextPart
from parser.text.reading import TextFormat
from parser.treebank.parts import TreebankPart

MOST_ATTEMPTS = 5
"""To parse a part. One that kills each worker would else be begun forever."""
RESULT = "name", "number", "is_last", "error", "seconds"
"""The columns of the rows of results."""
Row = dict[str, Any]


class WorkerSettings(NamedTuple):
    """As of `PartParser`."""

    folder: Path
    threads: int
    precision: Precision
    batch_size: int
    probabilities: bool
    retag: bool
    form: TextFormat | None
    tokenizer: bytes | None


def cut(row: Row, form: TextFormat | None) -> Iterator[Row]:
    """A row for each part of a file. row: the fields of a `CorpusFile`."""
    file = CorpusFile(**row)
    outputs = PartOutputs.of(file)
    number = 0
    try:
        for numbered in numbered_parts(file.path, form):
            number = numbered.number
            is_there = outputs.result(number) is not None
            yield {**row, **_row_of(numbered, is_there), "error": ""}
    except (OSError, ValueError) as error:
        end = NumberedPart(number, True, TextPart(0, ""))
        yield {**row, **_row_of(end, True), "error": str(error)}


def _row_of(numbered: NumberedPart, is_there: bool) -> Row:
    """is_there: whether its trees are; then the content is not needed."""
    part = numbered.part
    content = part.content.encode() if isinstance(part, TextPart) else part.content
    return {
        "number": numbered.number,
        "is_last": numbered.is_last,
        "line": part.line if isinstance(part, TreebankPart) else 0,
        "ordinal": part.ordinal if isinstance(part, TreebankPart) else 0,
        "offset": part.offset if isinstance(part, TextPart) else 0,
        "content": b"" if is_there else content,
        "is_there": is_there,
    }


class CorpusWorker:
    """A process that holds the model."""

    def __init__(self, settings: WorkerSettings):
        tune_process()
        self._form = settings.form
        self._parser = PartParser(*settings)

    def __call__(self, rows: Mapping[str, Sequence[Any]]) -> Mapping[str, Sequence[Any]]:
        """Parse the parts of a block; the rows of the results have what the driver needs to know of each."""
        block = [dict(zip(rows, values, strict=True)) for values in zip(*rows.values(), strict=True)]
        for row in block:
            row["seconds"] = 0.0  # unless it is parsed now
        for group in _groups([row for row in block if _is_missing(row)]):
            began = time.monotonic()
            errors = self._parsed(group)
            seconds = (time.monotonic() - began) / len(group)
            for row, error in zip(group, errors, strict=True):
                row.update(error=error, seconds=seconds)
        return {name: [row[name] for row in block] for name in RESULT}

    def _parsed(self, group: Sequence[Row]) -> list[str]:
        """Parse parts together, and keep their trees; returns what is wrong with each, if anything."""
        numbers = [int(row["number"]) for row in group]
        all_outputs = list(map(_outputs, group))
        attempts = [outputs.attempt(number) for outputs, number in zip(all_outputs, numbers, strict=True)]
        if max(attempts) > MOST_ATTEMPTS:
            ended = f"has ended {MOST_ATTEMPTS} workers, perhaps because memory ran out"
            return [f"part {number + 1} {ended}" for number in numbers]
        try:
            parsed = self._parser.run_together([_part_of(row, self._form) for row in group])
            for outputs, number, part in zip(all_outputs, numbers, parsed, strict=True):
                outputs.keep(number, part)
        except (ValueError, OSError, MemoryError) as error:
            if len(group) > 1:
                return [self._parsed([row])[0] for row in group]
            return [f"part {numbers[0] + 1}: {error or 'out of memory'}"]
        return [""] * len(group)


def _is_missing(row: Row) -> bool:
    """Whether a part is to be parsed: it can be read, and its trees are not there."""
    return not (row["error"] or row["is_there"] or _outputs(row).result(int(row["number"])))


def _groups(rows: Sequence[Row]) -> list[Sequence[Row]]:
    """The parts of a block that are parsed together.

    Each alone if one of them was begun before, since it may have ended a worker: only that one is given up.
    """
    begun = any(_outputs(row).attempts(int(row["number"])) for row in rows)
    return [[row] for row in rows] if begun else [rows] if rows else []


def _outputs(row: Row) -> PartOutputs:
    return PartOutputs.of(CorpusFile(*(row[name] for name in CorpusFile._fields)))


def _part_of(row: Row, form: TextFormat | None) -> TreebankPart | TextPart:
    if form:
        return TextPart(int(row["offset"]), row["content"].decode())
    return TreebankPart(int(row["line"]), int(row["ordinal"]), row["content"])
