"""Error messages and exit codes of commands."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from errno import EDQUOT, EFBIG, EIO, ENOSPC, EPIPE
from pathlib import Path

from parser.system.console import lines_of
from parser.system.interruption import SIGNALLED, Interrupted, StoppedError
from parser.treebank.ud_folders import FOLDER

DONE, FAULT_OF_PROGRAM, USER_ERROR, INTERRUPTED = 0, 1, 2, 130
OF_OUTPUT = ENOSPC, EDQUOT, EFBIG, EPIPE
"""Errors that occur (almost) only when writing."""
EMPTY = "''"
"""Stands for an empty name, as in a shell."""
WHAT_NEEDS_LESS = (
    "training needs less with a lower training.batch_size, training.max_batch_words, or sizes in "
    "parser.network; parsing with a lower --batch-size"
)


def exit_code_of(error: BaseException) -> int:
    """Return the exit code of a command that ends with an error."""
    if isinstance(error, (StoppedError, Interrupted)):
        return SIGNALLED + error.signal
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    return USER_ERROR if isinstance(error, (ValueError, OSError)) else FAULT_OF_PROGRAM


def message_of(error: Exception) -> Sequence[str]:
    """Return the lines of the message for an error."""
    if isinstance(error, OSError) and error.filename is not None:
        how = how_to_get(str(error.filename)) if isinstance(error, FileNotFoundError) else ""
        return [f"{error.filename or EMPTY}: {error.strerror}{how}"]
    if isinstance(error, OSError) and error.strerror:
        of_output, anywhere = error.errno in OF_OUTPUT, error.errno == EIO
        what = "writing the output: " if of_output else "reading or writing: " if anywhere else ""
        return [what + error.strerror]
    return lines_of(error)


def how_to_get(path: str) -> str:
    """Return the end of a message about a missing file; empty without a folder such as UD_English-EWT."""
    folder = Path(path).parent
    if not FOLDER.fullmatch(folder.name):
        return ""
    if folder.is_dir():
        files = ", ".join(sorted(file.name for file in folder.glob("*.conllu"))) or "no .conllu file"
        return f"; {folder} has {files}"
    usual = Path(os.environ.get("PARSER_DATA") or "data", "ud")  # where `make data` puts treebanks
    into = "" if folder.parent == usual else f' ARGUMENTS="--into {shlex.quote(str(folder.parent))}"'
    return f"; in the project's folder, make data TREEBANK={folder.name}{into} downloads the treebank"
