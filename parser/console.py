"""What is said while something runs."""

from __future__ import annotations

import errno
import os
import sys
from typing import Any

from tqdm import tqdm

LONG_WORK: dict[str, Any] = {"delay": 2, "leave": False, "disable": None}
"""Of a bar for what takes a moment as a rule: it is shown in a terminal alone, and after some seconds."""


def say(text: str) -> None:
    """To standard output at once, above a progress bar.

    If nobody reads it any longer, a program behind a pipe or a terminal, the work goes on.
    """
    if sys.stdout is None:
        return
    try:
        tqdm.write(text)
        sys.stdout.flush()
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.EIO):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
