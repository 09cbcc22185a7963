"""The command line: `stack-parser COMMAND`, and its exit codes."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

import torch

from parser import __version__
from parser.commands.check import add_check
from parser.commands.compare import add_compare
from parser.commands.draw import add_draw
from parser.commands.errors import DONE, USER_ERROR, WHAT_NEEDS_LESS, exit_code_of, message_of
from parser.commands.evaluate import add_evaluate
from parser.commands.pack import add_pack
from parser.commands.parse import add_parse
from parser.commands.parse_corpus import add_parse_corpus
from parser.commands.speed import add_plots, add_plugins, add_speed
from parser.commands.table import add_table
from parser.commands.train import add_train, train_parser
from parser.machine import one_memory_error, tune_process
from parser.training.interruption import StoppedError

COMMANDS = (
    add_train,
    add_evaluate,
    add_parse,
    add_parse_corpus,
    add_draw,
    add_compare,
    add_pack,
    add_check,
    add_table,
    add_speed,
    add_plots,
    add_plugins,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code: 0 done, 2 an error in the user's input, 130 interrupted."""
    options = argument_parser().parse_args(arguments)
    tune_process()
    try:
        with one_memory_error():
            options.command(options)
    except torch.OutOfMemoryError as error:
        why = f": {error}" if str(error) else ""
        print(f"out of memory{why}\n{WHAT_NEEDS_LESS}", file=sys.stderr)
        return USER_ERROR
    except (ValueError, OSError) as error:
        if isinstance(error, BrokenPipeError) and options.command is not train_parser:
            # The reader of our output has closed it; nothing more may be written at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return DONE
        print(message_of(error), file=sys.stderr)
        return USER_ERROR
    except (StoppedError, KeyboardInterrupt) as stopped:
        print(str(stopped) or "interrupted", file=sys.stderr)
        return exit_code_of(stopped)
    return DONE


def argument_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="stack-parser", description="Train and use StackLSTM dependency parsers."
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for add in COMMANDS:
        add(commands)
    return parser
