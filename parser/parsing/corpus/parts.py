"""Parts of files: reading them in order, and keeping their trees until the file is complete."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from parser.models.column_shares import Counts
from parser.parsing.corpus.files import COMPRESSED, PARTS, CorpusFile
from parser.parsing.part_parser import ParsedPart
from parser.system.files import atomic_file
from parser.treebank.conllu import TreebankPart, stream_parts
from parser.treebank.conllu_output import numbered_from
from parser.treebank.faults import Fault, Faults
from parser.treebank.text.reading import TextFormat, TextPart, stream_text

ATTEMPTS = ".attempts"


class NumberedPart(NamedTuple):
    number: int
    """Number of the part in its file, from 0."""
    is_last: bool
    part: TreebankPart | TextPart


def numbered_parts(path: str, form: TextFormat | None) -> Iterator[NumberedPart]:
    """The parts of a file; one part without content if the file is empty. Raises OSError and ValueError."""
    source: Iterator[TreebankPart | TextPart]
    if form:
        source = stream_text(path, one_sentence_per_line=form != "raw")
        empty: TreebankPart | TextPart = TextPart(0, "")
    else:
        source, empty = stream_parts(path), TreebankPart(1, 1, b"")
    number, pending = 0, next(source, empty)
    for following in source:
        yield NumberedPart(number, False, pending)
        number, pending = number + 1, following
    yield NumberedPart(number, True, pending)


class PartResult(NamedTuple):
    """The result of parsing a part. The fields are those of `ParsedPart`."""

    sentences: int
    words: int
    dropped: int
    filled: Counter[str]
    faults: Faults
    columns: dict[str, Counts]


class PartOutputs:
    """A folder with the trees of the parts of a file. The trees of a part appear completely or not at all."""

    def __init__(self, folder: str, is_compressed: bool):
        self._folder, self._is_compressed = Path(folder), is_compressed

    @classmethod
    def of(cls, file: CorpusFile) -> PartOutputs:
        return cls(file.unfinished, file.output.endswith(COMPRESSED))

    def result(self, number: int, digest: str | None = None) -> PartResult | None:
        """The result of a part; None if its trees are not there.

        digest: the hash of the part. Trees of another part with this number, from a file that was cut
        differently, do not count.
        """
        try:
            record: dict[str, Any] = json.loads(self._about(number).read_text(encoding="utf-8"))
            if self._trees(number).stat().st_size != record["bytes"] or digest not in (
                None,
                record["digest"],
            ):
                return None
            faults = Faults([Fault(**fault) for fault in record["first"]], record["total"], record["ended"])
            columns = {name: Counts(**counts) for name, counts in record["columns"].items()}
            filled = Counter(record["filled"])
            return PartResult(
                record["sentences"], record["words"], record["dropped"], filled, faults, columns
            )
        except (FileNotFoundError, KeyError, TypeError, ValueError):  # or of another version
            return None

    def keep(self, number: int, digest: str, parsed: ParsedPart) -> None:
        """Write the trees of a part."""
        self._folder.mkdir(parents=True, exist_ok=True)
        content = gzip.compress(parsed.content, mtime=0) if self._is_compressed else parsed.content
        # Not `write_atomically`: a worker that was presumed dead may still write the same part.
        with atomic_file(str(self._trees(number))) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        faults = parsed.faults
        record = {
            "digest": digest,
            "bytes": len(content),
            "sentences": parsed.sentences,
            "words": parsed.words,
            "dropped": parsed.dropped,
            "filled": parsed.filled,
            "first": [vars(fault) for fault in faults.first],
            "total": faults.total,
            "ended": faults.ended,
            "columns": {name: vars(counts) for name, counts in parsed.columns.items()},
        }
        with atomic_file(str(self._about(number))) as file:  # it marks the trees as complete
            file.write(json.dumps(record).encode())

    def attempt(self, number: int) -> int:
        """Record that a worker starts a part; return how many workers have started it."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with self._attempts(number).open("ab") as file:
            file.write(b".")
        return self.attempts(number)

    def attempts(self, number: int) -> int:
        """The number of workers that have started a part."""
        try:
            return self._attempts(number).stat().st_size
        except FileNotFoundError:
            return 0

    def join(self, results: list[PartResult], output: str, renumbers: bool) -> None:
        """Join the trees of all parts and remove the parts. renumbers: whether to renumber `# sent_id`."""
        Path(output).parent.mkdir(parents=True, exist_ok=True)
        os.replace(self._whole(results, renumbers) if len(results) > 1 else self._trees(0), output)
        self.remove()

    def _whole(self, results: list[PartResult], renumbers: bool) -> Path:
        """Write one file with the trees of all parts."""
        whole = self._folder / "whole"
        try:
            with whole.open("wb") as file:
                self._write(file, results, renumbers)
        except OSError:
            whole.unlink(missing_ok=True)  # it may take most of a full disk
            raise
        return whole

    def _write(self, file: BinaryIO, results: list[PartResult], renumbers: bool) -> None:
        before = 0
        for number, result in enumerate(results):
            if renumbers and number:
                file.write(self._renumbered(number, before))
            else:
                with self._trees(number).open("rb") as part:
                    shutil.copyfileobj(part, file)
            before += result.sentences
        file.flush()
        os.fsync(file.fileno())

    def _renumbered(self, number: int, before: int) -> bytes:
        content = self._trees(number).read_bytes()
        if not self._is_compressed:
            return numbered_from(before, content)
        return gzip.compress(numbered_from(before, gzip.decompress(content)), mtime=0)

    def remove(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def _trees(self, number: int) -> Path:
        return self._folder / f"{number}.trees"

    def _about(self, number: int) -> Path:
        return self._folder / f"{number}.json"

    def _attempts(self, number: int) -> Path:
        return self._folder / f"{number}{ATTEMPTS}"


def forget_attempts(own: Path) -> None:
    """Forget all attempts, so that a new start tries everything again. own: the program's own folder."""
    for path in (own / PARTS).glob(f"*/*{ATTEMPTS}"):
        path.unlink(missing_ok=True)
