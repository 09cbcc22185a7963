"""What a user is told of a treebank of Universal Dependencies whose file is missing."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

DOWNLOADED_TO = Path("data/ud")
"""Where `make data` puts treebanks, unless it is told otherwise."""
FOLDER = re.compile(r"UD_[A-Z][A-Za-z_]*-[A-Za-z0-9]+")


def how_to_get(path: str) -> str:
    """The end of a message about a missing file; empty if it is in no folder such as UD_English-EWT."""
    folder = Path(path).parent
    if not FOLDER.fullmatch(folder.name):
        return ""
    if folder.is_dir():
        found = ", ".join(sorted(file.name for file in folder.glob("*.conllu"))) or "no .conllu file"
        return f"; {folder} has {found}"
    into = "" if folder.parent == DOWNLOADED_TO else f' ARGUMENTS="--into {shlex.quote(str(folder.parent))}"'
    return f"; in the project's folder, make data TREEBANK={folder.name}{into} downloads the treebank"
