"""What users are told when a command fails."""

from __future__ import annotations

from collections.abc import Sequence

from parser.config.missing_treebank import how_to_get
from parser.system.console import lines_of
from parser.system.interruption import SIGNALLED, Interrupted, StoppedError

DONE, FAULT_OF_PROGRAM, USER_ERROR, INTERRUPTED = 0, 1, 2, 130
WHAT_NEEDS_LESS = (
    "training needs less with a lower training.batch_size, training.max_batch_words, or sizes in "
    "parser.network; parsing with a lower --batch-size"
)


def exit_code_of(error: BaseException) -> int:
    """The exit code of a command that ends with this error."""
    if isinstance(error, (StoppedError, Interrupted)):
        return SIGNALLED + error.signal
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    return USER_ERROR if isinstance(error, (ValueError, OSError)) else FAULT_OF_PROGRAM


def message_of(error: Exception) -> Sequence[str]:
    """Its lines."""
    if isinstance(error, OSError) and error.filename:
        how = how_to_get(str(error.filename)) if isinstance(error, FileNotFoundError) else ""
        return [f"{error.filename}: {error.strerror}{how}"]
    if isinstance(error, OSError) and error.strerror:
        return [f"writing the output: {error.strerror}"]
    return lines_of(error)
