"""Treebanks of Universal Dependencies, found by the names of their folders and files.

A folder `UD_Language-Name` contains the files `xx_name-ud-train.conllu`, -dev and -test, some of which may be
missing, a README with metadata, and a licence. It is often a git clone, whose commit is the file's version.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from hashlib import file_digest
from pathlib import Path
from typing import NamedTuple, TypedDict

from parser.system.console import printable
from parser.system.files import named_errors, names_in, real_path
from parser.system.version import git

PREFIX, EXAMPLE = "UD_", "UD_English-EWT"
FOLDER = re.compile(PREFIX + r"([A-Z][A-Za-z_]*)-([A-Za-z0-9]+)")
READMES = "README.md", "README.txt"
LICENCE_FILE = "LICENSE.txt"
REPOSITORIES = "https://github.com/UniversalDependencies"


@dataclass(frozen=True)
class UDTreebank:
    folder: Path
    train: tuple[Path, ...]
    """Usually one file; large treebanks have several."""
    dev: Path | None
    test: Path | None

    @property
    def name(self) -> str:
        """The name of the folder, such as UD_Wolof-WTB."""
        return self.folder.name

    @property
    def language(self) -> str:
        """The English name of the language, such as Ancient Greek."""
        return _parts(self.name)[0].replace("_", " ")

    @property
    def model_name(self) -> str:
        """The name of a model of this treebank, such as ancient_greek-ptnk."""
        return "-".join(_parts(self.name)).lower()

    @property
    def code(self) -> str:
        """The ISO 639 code of the language, taken from the names of the files."""
        files = [*self.train, *filter(None, (self.dev, self.test))]
        return files[0].name.partition("_")[0] if files else ""

    @property
    def licence(self) -> str | None:
        """The licence of the data according to the README; None if it gives none."""
        return self._metadata("License")

    @property
    def contributors(self) -> str | None:
        """The contributors listed in the README, `Family, Given; Family, Given`; None if it lists none."""
        return self._metadata("Contributors")

    @property
    def repository(self) -> str:
        """The URL of the repository of Universal Dependencies for a treebank of this name."""
        return f"{REPOSITORIES}/{self.name}"

    @property
    def licence_text(self) -> str:
        """The text of the licence; empty if there is none."""
        path = self.folder / LICENCE_FILE
        return path.read_text("utf-8", errors="replace") if path.is_file() else ""

    def _metadata(self, key: str) -> str | None:
        """A value from the machine-readable part at the end of the README."""
        line = re.compile(rf"^{key}:[ \t]*(\S.*?)[ \t\r]*$", re.MULTILINE)
        for name in READMES:
            path = self.folder / name
            if path.is_file() and (values := line.findall(path.read_text("utf-8", errors="replace"))):
                return str(values[-1])
        return None


class TreebankFolders(NamedTuple):
    treebanks: list[UDTreebank]
    """Sorted by name."""
    left_out: dict[str, str]
    """By the names of folders, printable, why they are not among the treebanks."""


def find_treebanks(folder: Path, only: Sequence[str] = ()) -> TreebankFolders:
    """The treebanks in a folder. only: patterns of names, such as UD_*-PUD; each must match one.

    Raises ValueError if no folder has the name of a treebank, if a pattern matches none, or if `folder`
    cannot be read.
    """
    names = [
        name for name in names_in(folder) if name.startswith(PREFIX) and not os.path.isfile(folder / name)
    ]
    if not names:
        raise ValueError(f"{folder}: has no folder with a name such as {EXAMPLE}")
    for pattern in only:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise ValueError(f"--only {pattern}: {folder} has no such treebank, but {', '.join(names)}")
    folders = TreebankFolders([], {})
    for name in names:
        if only and not any(fnmatchcase(name, pattern) for pattern in only):
            continue
        try:
            _refuse_name(name, names)
            folders.treebanks.append(_treebank(folder / name))
        except ValueError as error:
            folders.left_out[printable(name)] = printable(str(error))
    return folders


def _refuse_name(name: str, names: Sequence[str]) -> None:
    """Raises ValueError for a name of another form, or one that differs from another name in case alone.

    names: all names in the folder. Case is not significant in the names of models.
    """
    if not FOLDER.fullmatch(name):
        raise ValueError(
            f"its name is not of the form of {EXAMPLE} or UD_Old_English-Cairo, in the letters A to Z; "
            "rename the folder"
        )
    valid = filter(FOLDER.fullmatch, names)
    if others := [other for other in valid if other != name and other.lower() == name.lower()]:
        raise ValueError(
            f"its name and {', '.join(others)} differ in case alone, and their models would have one name; "
            "rename one of the folders"
        )


def _parts(name: str) -> tuple[str, str]:
    match = FOLDER.fullmatch(name)
    assert match
    return match[1], match[2]


def _treebank(folder: Path) -> UDTreebank:
    """Raises ValueError for a folder that cannot be read, and for several files that should be one."""
    names = names_in(folder)

    def files(split: str) -> tuple[Path, ...]:
        return tuple(folder / name for name in names if fnmatchcase(name, f"*-ud-{split}*.conllu"))

    def file(split: str) -> Path | None:
        paths = files(split)
        if len(paths) > 1:
            several = ", ".join(path.name for path in paths)
            raise ValueError(f"{several}: only train may be several files; join these by `cat`")
        return paths[0] if paths else None

    return UDTreebank(folder, files("train"), file("dev"), file("test"))


class TreebankVersion(TypedDict):
    """The version of a treebank file: its hash and, if it is in a git clone, the commit and the release."""

    sha256: str
    commit: str | None
    """Commit of the clone; None if the commit does not contain the file with this content."""
    release: str | None
    """The tag of this commit, such as r2.16."""


def provenance(path: str) -> TreebankVersion | None:
    """The version of a file; None for a path that cannot be read twice, such as a pipe. Raises OSError."""
    file = real_path(path)
    if not file.is_file():
        return None
    with named_errors(path), file.open("rb") as content:
        digest = file_digest(content, "sha256").hexdigest()
    commit, _, committed = (git(file, "rev-parse", "HEAD", f"HEAD:./{file.name}") or "").partition("\n")
    if not committed or committed != git(file, "hash-object", "--", file.name):
        return TreebankVersion(sha256=digest, commit=None, release=None)
    release = git(file, "describe", "--tags", "--exact-match")
    return TreebankVersion(sha256=digest, commit=commit, release=release)
