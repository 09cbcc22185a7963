"""The program `stack-parser`, which a signal can end at any time."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext

from parser.system.interruption import ended_at_once, ignore_signals
from parser.training.launcher import is_one_of_several

BLAS_THREADS = "OPENBLAS_NUM_THREADS"
"""The environment variable that NumPy's library of matrix products reads when it is loaded."""


def program() -> int:
    """Run the command line as the program of this process; returns the exit code."""
    # NumPy's products are small, and threads would wait for each other at each of them.
    os.environ.setdefault(BLAS_THREADS, "1")
    try:
        # Several processes that train are ended by the process that started them, which reports it.
        with nullcontext() if is_one_of_several() else ended_at_once():
            from parser.cli import main  # takes a while

            return main()
    finally:
        ignore_signals()  # only the exit itself is left, which removes files


if __name__ == "__main__":  # other processes of a speed run import this module too
    sys.exit(program())
