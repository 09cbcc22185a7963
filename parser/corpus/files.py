"""The files of a corpus, and where their trees go."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from parser.text.reading import TextFormat

TREEBANKS = (".conllu", ".conll", ".conllx")
TEXTS = (".txt",)
COMPRESSED = ".gz"


class CorpusFile(NamedTuple):
    name: str
    """Its path below the folder of the corpus."""
    path: str
    output: str
    unfinished: str
    """Folder for the trees of its parts until all of them are there."""
    size: int
    """Bytes, compressed if it is."""


class FoundFiles(NamedTuple):
    missing: list[CorpusFile]
    """Those whose trees are missing, the largest first, so that no large one is left for the end."""
    done: int
    """How many have their trees already."""
    others: int
    """How many files have other suffixes, and are left out."""


def find_files(source: Path, target: Path, unfinished: Path, form: TextFormat | None) -> FoundFiles:
    """All files below the folder `source`; their trees go to the same names below `target`.

    Trees of texts have the suffix `.conllu`. All paths are absolute. Raises ValueError if there is no file.
    """
    if not source.is_dir():
        raise ValueError(f"{source}: there is no such folder")
    suffixes = TEXTS if form else TREEBANKS
    all_files = list(_files_below(source))
    found = [path for path in all_files if _suffix(path) in suffixes]
    if not found:
        wanted = ", ".join(suffixes)
        raise ValueError(f"{source}: no file with the suffix {wanted}, or with {COMPRESSED} behind it")
    files = [_corpus_file(path, source, target, unfinished, form) for path in found]
    missing = [file for file in files if not Path(file.output).exists()]
    missing.sort(key=lambda file: -file.size)
    return FoundFiles(missing, len(files) - len(missing), len(all_files) - len(found))


def _files_below(folder: Path) -> Iterator[Path]:
    """In order. Raises ValueError for a folder that can not be read; links to folders are not followed."""

    def refuse(error: OSError) -> None:
        raise ValueError(f"{error.filename}: {error.strerror}")

    for below, folders, names in os.walk(folder, onerror=refuse):
        folders.sort()
        yield from (Path(below, name) for name in sorted(names) if os.path.isfile(os.path.join(below, name)))


def _suffix(path: Path) -> str:
    """Without that of compression."""
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
