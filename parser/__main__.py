"""The program `stack-parser`, which a signal can end at any time."""

from __future__ import annotations

import sys
from contextlib import nullcontext

from parser.system.interruption import ended_at_once, ignore_signals
from parser.training.launcher import is_one_of_several


def program() -> int:
    """Run the command line as the program of this process; returns the exit code."""
    try:
        # Several processes that train are ended by the process that started them, which reports it.
        with nullcontext() if is_one_of_several() else ended_at_once():
            from parser.cli import main  # takes a while

            return main()
    finally:
        ignore_signals()  # only the exit itself is left, which removes files


if __name__ == "__main__":  # other processes of a speed run import this module too
    sys.exit(program())
