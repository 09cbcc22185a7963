"""Which version of a treebank a file is: by its hash and, if it lies in a clone, by commit and release."""

from __future__ import annotations

import subprocess
from hashlib import file_digest
from pathlib import Path
from typing import TypedDict


class TreebankVersion(TypedDict):
    sha256: str
    commit: str | None
    """Of the clone; None if the commit does not have the file with this content."""
    release: str | None
    """The tag of this commit, such as r2.16."""


def provenance(path: str) -> TreebankVersion | None:
    """None for what is no file that can be read twice, such as a pipe. Raises OSError."""
    file = Path(path).resolve()
    if not file.is_file():
        return None
    with file.open("rb") as content:
        digest = file_digest(content, "sha256").hexdigest()
    commit, _, committed = (_git(file, "rev-parse", "HEAD", f"HEAD:./{file.name}") or "").partition("\n")
    if not committed or committed != _git(file, "hash-object", "--", file.name):
        return TreebankVersion(sha256=digest, commit=None, release=None)
    release = _git(file, "describe", "--tags", "--exact-match")
    return TreebankVersion(sha256=digest, commit=commit, release=release)


def _git(file: Path, *command: str) -> str | None:
    """What git says in the folder of a file; None if it fails, or is not there."""
    called = ["git", "-C", str(file.parent), *command]
    try:
        done = subprocess.run(called, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
