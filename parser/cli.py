"""The command line: `stack-parser COMMAND`, and its exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from importlib import import_module

from parser.commands.arguments import argument_parser
from parser.commands.errors import DONE, USER_ERROR, WHAT_NEEDS_LESS, exit_code_of, message_of
from parser.system.console import warn
from parser.system.interruption import StoppedError, interruptible
from parser.system.version import MissingPackageError, naming_missing
from parser.training.launcher import is_one_of_several

TRAIN = "parser.commands.train:train_parser"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code: 0 if done, 2 for errors in the input, 128+ for signals."""
    arguments = sys.argv[1:] if arguments is None else arguments
    options = argument_parser().parse_args(arguments)
    options.arguments = arguments
    module, _, function = options.run.partition(":")
    try:
        # Only now, as PyTorch takes seconds; and before signals raise errors, which would harm imports.
        with naming_missing(options.command, "train"):
            run = getattr(import_module(module), function)
        # If several processes train, they have to join first.
        with nullcontext() if is_one_of_several() else interruptible():
            run(options)
    except (ValueError, OSError, MissingPackageError) as error:
        if isinstance(error, BrokenPipeError) and options.run != TRAIN:
            # The reader has closed our output, so nothing more may be written at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return DONE
        warn(*message_of(error))
        return USER_ERROR
    except (RuntimeError, MemoryError) as error:
        from parser.system.machine import is_of_memory

        if not is_of_memory(error):
            raise
        why = f": {error}" if str(error) else ""
        warn(*f"out of memory{why}".split("\n"), WHAT_NEEDS_LESS)
        return USER_ERROR
    except (StoppedError, KeyboardInterrupt) as stopped:
        warn(str(stopped) or "interrupted")
        return exit_code_of(stopped)
    return DONE
