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

    def __call__(self, rows: Mapping[str, Sequence[Any]]) -> Iterator[Mapping[str, Sequence[Any]]]:
        """Parse parts; the rows of the results have what the driver needs to know of each."""
        for values in zip(*rows.values(), strict=True):
            row, began = dict(zip(rows, values, strict=True)), time.monotonic()
            result = {name: row[name] for name in ("name", "number", "is_last")}
            result["error"] = row["error"] or self._parsed(row)
            result["seconds"] = time.monotonic() - began
            yield {name: [value] for name, value in result.items()}

    def _parsed(self, row: Row) -> str:
        """Parse a part, and keep its trees; returns what is wrong, if anything."""
        file = CorpusFile(*(row[name] for name in CorpusFile._fields))
        outputs, number = PartOutputs.of(file), int(row["number"])
        if row["is_there"] or outputs.result(number):
            return ""
        if outputs.attempt(number) > MOST_ATTEMPTS:
            return f"part {number + 1} has ended {MOST_ATTEMPTS} workers, perhaps because memory ran out"
        try:
            outputs.keep(number, self._parser.run(_part_of(row, self._form)))
        except (ValueError, OSError, MemoryError) as error:
            return f"part {number + 1}: {error or 'out of memory'}"
        return ""


def _part_of(row: Row, form: TextFormat | None) -> TreebankPart | TextPart:
    if form:
        return TextPart(int(row["offset"]), row["content"].decode())
    return TreebankPart(int(row["line"]), int(row["ordinal"]), row["content"])
