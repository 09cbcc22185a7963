"""The files of a corpus, and the files for their trees."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, count
from pathlib import Path
from typing import NamedTuple

from parser.text.reading import TextFormat
from parser.treebank.faults import UNDECODED

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
    own: Path
    """The program's own folder, see `OWN`. No path of trees begins with its name."""


def find_files(source: Path, target: Path, form: TextFormat | None) -> FoundFiles:
    """Find all files below the folder `source`; their trees get the same names below `target`.

    Trees of texts get the suffix `.conllu`. All paths are absolute. Raises ValueError if there is no file, or
    if trees would get the name of a folder with other trees.
    """
    if not source.is_dir():
        raise ValueError(f"{source}: there is no such folder")
    suffixes = TEXTS if form else TREEBANKS
    all_files = list(_files_below(source))
    found = [path for path in all_files if _suffix(path) in suffixes]
    if not found:
        wanted = ", ".join(f"{suffix} or {suffix}{COMPRESSED}" for suffix in suffixes)
        raise ValueError(f"{source}: no file ends in {wanted}")
    own = _own_folder(target, (path.relative_to(source).parts[0] for path in found))
    files = [_corpus_file(path, source, target, own / PARTS, form) for path in found]
    _refuse_names(files)
    missing = [file for file in files if not Path(file.output).exists()]
    missing.sort(key=lambda file: -file.size)
    return FoundFiles(missing, len(files) - len(missing), len(all_files) - len(found), own)


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


def _refuse_names(files: Sequence[CorpusFile]) -> None:
    """Raises ValueError for names that trees cannot have, perhaps because texts lose their suffix."""
    parents = map(Path, {os.path.dirname(file.output) for file in files})
    folders = {str(folder) for parent in parents for folder in (parent, *parent.parents)}
    for file in files:
        if UNDECODED.search(file.path + file.output):
            raise ValueError(f"{file.path}: its name, or that of a folder, is not UTF-8; rename it")
        if os.path.isdir(file.output):
            raise ValueError(f"{file.output}: is a folder, and the trees of {file.path} would have its name")
        if file.output in folders:
            raise ValueError(
                f"{file.path}: its trees would have the name of a folder with trees of other files, "
                f"{file.output}; rename one of them"
            )


def _files_below(folder: Path) -> Iterator[Path]:
    """All files below a folder, in order; links to folders are not followed.

    Raises ValueError for a folder that cannot be read.
    """

    def refuse(error: OSError) -> None:
        raise ValueError(f"{error.filename}: {error.strerror}")

    for below, folders, names in os.walk(folder, onerror=refuse):
        folders.sort()
        yield from (Path(below, name) for name in sorted(names) if os.path.isfile(os.path.join(below, name)))


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
