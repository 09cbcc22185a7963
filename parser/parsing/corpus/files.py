"""The files of a corpus, and the files for their trees, which are those of parts at first."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
from collections.abc import Collection, Iterable, Iterator
from itertools import chain, count
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from parser.parsing.input_parts import Part, parts_of
from parser.parsing.part_parser import ParsedPart
from parser.parsing.totals import Totals
from parser.system.console import printable
from parser.system.files import atomic_file, names_in
from parser.text.reading import TextFormat, TextPart
from parser.treebank.conllu import TreebankPart
from parser.treebank.conllu_faults import UNDECODED, Fault, Faults
from parser.treebank.conllu_output import numbered_from

TREEBANKS = (".conllu", ".conll", ".conllx")
TEXTS = (".txt",)
COMPRESSED = ".gz"
STORE = ".parse-corpus"
"""Prefix of the name of the program's own folder, in the folder of trees, for all files except trees."""
SETTINGS, PARTS = "settings.json", "parts"
"""Names in the program's own folder; no other folder contains the first one."""


ATTEMPTS = ".attempts"
"""Suffix of the file with a byte for each worker that has started a part."""


class CorpusFile(NamedTuple):
    name: str
    """Path of the file relative to the folder of the corpus."""
    path: str
    output: str
    unfinished: str
    """Folder for the trees of the parts of the file until all of them are there."""
    size: int
    """Size on disk in bytes; for compressed files, the compressed size."""


class FoundFiles(NamedTuple):
    missing: list[CorpusFile]
    """Files whose trees are missing, the largest first, so that no large file is left for the end."""
    done: int
    """Number of files whose trees are there already."""
    others: int
    """Number of files with other suffixes, which are left out."""
    failures: dict[str, str]
    """Why other files and folders are left out, by their names, printable."""
    store: Path
    """The program's own folder, see `STORE`. No path of trees begins with its name."""


def find_files(source: Path, target: Path, form: TextFormat | None) -> FoundFiles:
    """Find all files below the folder `source`; their trees get the same names below `target`.

    Trees of texts get the suffix `.conllu`. All paths are absolute. Raises ValueError if there is no file, or
    if one of the two folders cannot be used.
    """
    if not source.is_dir():
        raise ValueError(f"{source}: there is no such folder")
    for folder in (source, target):
        if UNDECODED.search(str(folder)):
            raise ValueError(f"{folder}: its name, or that of a folder above it, is not UTF-8; rename it")
    suffixes = TEXTS if form else TREEBANKS
    failures: dict[str, str] = {}
    all_files = list(_files_below(source, failures))
    paths = [path for path in all_files if _suffix(path) in suffixes]
    if not paths and not failures:
        wanted = ", ".join(f"{suffix} or {suffix}{COMPRESSED}" for suffix in suffixes)
        raise ValueError(f"{source}: no file ends in {wanted}")
    store = _store(target, (path.relative_to(source).parts[0] for path in paths))
    files = []
    for path in paths:
        try:
            files.append(_corpus_file(path, source, target, store / PARTS, form))
        except OSError as error:
            failures[_name(path, source)] = _unreadable(error)
    parents = map(Path, {os.path.dirname(file.output) for file in files})
    folders = {str(folder) for parent in parents for folder in (parent, *parent.parents)}
    faults = {file: _fault_of_name(file, folders) for file in files}
    failures |= {_name(Path(file.path), source): fault for file, fault in faults.items() if fault}
    sound = [file for file, fault in faults.items() if not fault]
    missing = [file for file in sound if not Path(file.output).exists()]
    missing.sort(key=lambda file: -file.size)
    return FoundFiles(missing, len(sound) - len(missing), len(all_files) - len(paths), failures, store)


def earlier_folder(target: Path) -> Path | None:
    """The program's own folder, see `STORE`, from an earlier start, if there was one."""
    return next((path.parent for path in target.glob(f"{STORE}*/{SETTINGS}") if path.is_file()), None)


def _store(target: Path, names: Iterable[str]) -> Path:
    """The program's own folder, if possible an earlier one. Its name is none of `names`, ignoring case."""
    taken, earlier = {name.casefold() for name in names}, earlier_folder(target)
    if earlier and earlier.name not in taken:
        return earlier
    if earlier:  # with trees of files that the corpus may have lost
        taken |= {path.name.casefold() for path in target.iterdir()}
    candidates = chain([STORE], (f"{STORE}-{number}" for number in count(2)))
    return target / next(name for name in candidates if name not in taken)


def _fault_of_name(file: CorpusFile, folders: Collection[str]) -> str:
    """Why trees cannot have their name, perhaps because texts lose their suffix; empty if they can.

    folders: those of the trees of all files.
    """
    if UNDECODED.search(file.path):
        return "its name, or that of a folder, is not UTF-8; rename it"
    if os.path.isdir(file.output):
        return f"its trees would have the name of a folder, {file.output}; rename one of them"
    if file.output in folders:
        return (
            f"its trees would have the name of a folder with trees of other files, {file.output}; rename one "
            "of them"
        )
    return ""


def _files_below(folder: Path, failures: dict[str, str]) -> Iterator[Path]:
    """All files below a folder, in order; links to folders are not followed, other links may lead nowhere.

    Folders that cannot be read are added to `failures`. Raises ValueError if `folder` is one.
    """
    names_in(folder)

    def refuse(error: OSError) -> None:
        failures[_name(Path(error.filename), folder)] = _unreadable(error)

    for below, folders, names in os.walk(folder, onerror=refuse):
        folders.sort()
        paths = (Path(below, name) for name in sorted(names))
        yield from (path for path in paths if os.path.isfile(path) or os.path.islink(path))


def _name(path: Path, source: Path) -> str:
    """The name of a file or folder of the corpus in messages and in the report."""
    return printable(str(path.relative_to(source)))


def _unreadable(error: OSError) -> str:
    return f"cannot be read: {error.strerror}"


def _suffix(path: Path) -> str:
    """The suffix of a file, without the suffix of compression."""
    return Path(path.name.removesuffix(COMPRESSED)).suffix


def _corpus_file(
    path: Path, source: Path, target: Path, unfinished: Path, form: TextFormat | None
) -> CorpusFile:
    name = path.relative_to(source)
    output = target / name
    if form:
        compressed = COMPRESSED if path.name.endswith(COMPRESSED) else ""
        output = output.with_name(Path(path.name.removesuffix(COMPRESSED)).stem + TREEBANKS[0] + compressed)
    stat = path.stat()
    state = hashlib.sha256(f"{name}\n{stat.st_size}\n{stat.st_mtime_ns}".encode("utf-8", "surrogateescape"))
    return CorpusFile(
        str(name), str(path), str(output), str(unfinished / state.hexdigest()[:24]), stat.st_size
    )


class NumberedPart(NamedTuple):
    number: int
    """Number of the part in its file, from 0."""
    is_last: bool
    part: Part


def numbered_parts(path: str, form: TextFormat | None) -> Iterator[NumberedPart]:
    """The parts of a file; one part without content if the file is empty. Raises OSError and ValueError."""
    source = parts_of(path, form)
    number, pending = 0, next(source, TextPart(0, "") if form else TreebankPart(1, 1, b""))
    for following in source:
        yield NumberedPart(number, False, pending)
        number, pending = number + 1, following
    yield NumberedPart(number, True, pending)


class PartResult(NamedTuple):
    """The result of parsing a part. The fields are those of `ParsedPart`."""

    totals: Totals
    faults: Faults


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
            return PartResult(Totals.from_json(record["totals"]), faults)
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
            "totals": parsed.totals.as_json(),
            "first": [vars(fault) for fault in faults.first],
            "total": faults.total,
            "ended": faults.ended,
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
            before += result.totals.sentences
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


def forget_attempts(store: Path) -> None:
    """Forget all attempts, so that a new start tries everything again. store: see `STORE`."""
    for path in (store / PARTS).glob(f"*/*{ATTEMPTS}"):
        path.unlink(missing_ok=True)
