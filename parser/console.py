"""What is said while something runs."""

from __future__ import annotations

import errno
import os
import sys

from tqdm import tqdm


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
