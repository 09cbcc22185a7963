"""The version of a treebank file: its hash and, if it is in a git clone, the commit and the release."""

from __future__ import annotations

from hashlib import file_digest
from typing import TypedDict

from parser.system.files import named_errors, real_path
from parser.system.git import git


class TreebankVersion(TypedDict):
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
