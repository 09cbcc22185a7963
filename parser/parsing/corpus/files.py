"""The files of a corpus, and the files for their trees."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterable, Iterator
from itertools import chain, count
from pathlib import Path
from typing import NamedTuple

from parser.system.console import printable
from parser.system.files import names_in
from parser.treebank.faults import UNDECODED
from parser.treebank.text.reading import TextFormat

TREEBANKS = (".conllu", ".conll", ".conllx")
TEXTS = (".txt",)
COMPRESSED = ".gz"
OWN = ".parse-corpus"
"""Prefix of the name of the program's own folder, in the folder of trees, for all files except trees."""
SETTINGS, PARTS = "settings.json", "parts"
"""Names in the program's own folder; no other folder contains the first one."""


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
    own: Path
    """The program's own folder, see `OWN`. No path of trees begins with its name."""


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
    found = [path for path in all_files if _suffix(path) in suffixes]
    if not found and not failures:
        wanted = ", ".join(f"{suffix} or {suffix}{COMPRESSED}" for suffix in suffixes)
        raise ValueError(f"{source}: no file ends in {wanted}")
    own = _own_folder(target, (path.relative_to(source).parts[0] for path in found))
    files = []
    for path in found:
        try:
            files.append(_corpus_file(path, source, target, own / PARTS, form))
        except OSError as error:
            failures[_name(path, source)] = _unreadable(error)
    parents = map(Path, {os.path.dirname(file.output) for file in files})
    folders = {str(folder) for parent in parents for folder in (parent, *parent.parents)}
    faults = {file: _fault_of_name(file, folders) for file in files}
    failures |= {_name(Path(file.path), source): fault for file, fault in faults.items() if fault}
    sound = [file for file, fault in faults.items() if not fault]
    missing = [file for file in sound if not Path(file.output).exists()]
    missing.sort(key=lambda file: -file.size)
    return FoundFiles(missing, len(sound) - len(missing), len(all_files) - len(found), failures, own)


def earlier_folder(target: Path) -> Path | None:
    """The program's own folder, see `OWN`, from an earlier start, if there was one."""
    return next((path.parent for path in target.glob(f"{OWN}*/{SETTINGS}") if path.is_file()), None)


def _own_folder(target: Path, names: Iterable[str]) -> Path:
    """The program's own folder, if possible an earlier one. Its name is none of `names`, ignoring case."""
    taken, earlier = {name.casefold() for name in names}, earlier_folder(target)
    if earlier and earlier.name not in taken:
        return earlier
    if earlier:  # with trees of files that the corpus may have lost
        taken |= {path.name.casefold() for path in target.iterdir()}
    own = chain([OWN], (f"{OWN}-{number}" for number in count(2)))
    return target / next(name for name in own if name not in taken)


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
