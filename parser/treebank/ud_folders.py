"""Treebanks of Universal Dependencies, found by the names of their folders and files.

A folder `UD_Language-Name` has files `xx_name-ud-train.conllu`, -dev and -test, of which some may be missing,
a README with metadata, and a licence.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

FOLDER = re.compile(r"UD_([A-Z][A-Za-z_]*)-([A-Za-z0-9]+)")
READMES = "README.md", "README.txt"
LICENCE_FILE = "LICENSE.txt"
REPOSITORIES = "https://github.com/UniversalDependencies/"


@dataclass(frozen=True)
class UDTreebank:
    folder: Path
    train: tuple[Path, ...]
    """Usually one file; large treebanks have several."""
    dev: Path | None
    test: Path | None

    @property
    def name(self) -> str:
        """As UD_Wolof-WTB."""
        return self.folder.name

    @property
    def language(self) -> str:
        """Its English name, as Ancient Greek."""
        return _parts(self.name)[0].replace("_", " ")

    @property
    def model_name(self) -> str:
        """That of a model of it, as ancient_greek-ptnk."""
        return "-".join(_parts(self.name)).lower()

    @property
    def code(self) -> str:
        """Of the language, as in the names of the files: an ISO 639 code."""
        files = [*self.train, *filter(None, (self.dev, self.test))]
        return files[0].name.partition("_")[0] if files else ""

    @property
    def licence(self) -> str | None:
        """Of the data, as the README names it; None if it does not."""
        return self._metadata("License")

    @property
    def contributors(self) -> str | None:
        """As the README names them, `Family, Given; Family, Given`; None if it does not."""
        return self._metadata("Contributors")

    @property
    def repository(self) -> str:
        """Where Universal Dependencies has a treebank of this name."""
        return REPOSITORIES + self.name

    @property
    def licence_text(self) -> str:
        """Empty if there is none."""
        path = self.folder / LICENCE_FILE
        return path.read_text("utf-8", errors="replace") if path.is_file() else ""

    def _metadata(self, key: str) -> str | None:
        """In the machine-readable part of the README, which is its end."""
        line = re.compile(rf"^{key}:[ \t]*(\S.*?)[ \t\r]*$", re.MULTILINE)
        for name in READMES:
            path = self.folder / name
            if path.is_file() and (found := line.findall(path.read_text("utf-8", errors="replace"))):
                return str(found[-1])
        return None


def find_treebanks(folder: Path, only: Sequence[str] = ()) -> list[UDTreebank]:
    """The treebanks in a folder, by name. only: patterns of names, as UD_*-PUD; one of them must fit.

    Raises ValueError if there is none, or if a pattern fits none.
    """
    names = sorted(path.name for path in folder.glob("UD_*") if path.is_dir() and FOLDER.fullmatch(path.name))
    if not names:
        raise ValueError(f"{folder}: has no folder with a name such as UD_English-EWT")
    for pattern in only:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise ValueError(f"--only {pattern}: {folder} has no such treebank, but {', '.join(names)}")
    chosen = [name for name in names if not only or any(fnmatchcase(name, pattern) for pattern in only)]
    return [_treebank(folder / name) for name in chosen]


def _parts(name: str) -> tuple[str, str]:
    found = FOLDER.fullmatch(name)
    assert found
    return found[1], found[2]


def _treebank(folder: Path) -> UDTreebank:
    def files(split: str) -> tuple[Path, ...]:
        return tuple(sorted(folder.glob(f"*-ud-{split}*.conllu")))

    def file(split: str) -> Path | None:
        found = files(split)
        if len(found) > 1:
            names = ", ".join(path.name for path in found)
            raise ValueError(f"{folder}: {names}: only train may be several files; join these by `cat`")
        return found[0] if found else None

    return UDTreebank(folder, files("train"), file("dev"), file("test"))
