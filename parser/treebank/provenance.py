"""Which version of a treebank a file is: by its hash and, if it lies in a clone, by commit and release."""

from __future__ import annotations

from hashlib import file_digest
from pathlib import Path
from typing import TypedDict

from parser.system.git import git


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
    commit, _, committed = (git(file, "rev-parse", "HEAD", f"HEAD:./{file.name}") or "").partition("\n")
    if not committed or committed != git(file, "hash-object", "--", file.name):
        return TreebankVersion(sha256=digest, commit=None, release=None)
    release = git(file, "describe", "--tags", "--exact-match")
    return TreebankVersion(sha256=digest, commit=commit, release=release)
