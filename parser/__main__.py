"""The program `stack-parser`, which a signal may end at any time."""

from __future__ import annotations

import sys
from contextlib import nullcontext

from parser.distributed.launcher import is_one_of_several
from parser.system.interruption import ended_at_once, ignore_signals


def program() -> int:
    """Run the command line in a process of its own; returns the exit code."""
    try:
        # Several processes that train are ended by the one that has started them, and which tells of it.
        with nullcontext() if is_one_of_several() else ended_at_once():
            from parser.cli import main  # which takes a while

            return main()
    finally:
        ignore_signals()  # nothing is left to interrupt but the end itself, which removes files


if __name__ == "__main__":  # other processes of a speed run import this module too
    sys.exit(program())
