"""`stack-parser table`: train the parsers of a table, and write it."""

from __future__ import annotations

import argparse
from pathlib import Path

from parser.commands.options import Commands, add_config


def add_table(commands: Commands) -> None:
    command = commands.add_parser("table", help="train the runs of a table, and write the table")
    add_config(command, "configs/tables", "runs/tables")
    command.set_defaults(command=make_table)


def make_table(options: argparse.Namespace) -> None:
    from parser.tables import commands  # imports matplotlib, which takes half a second

    commands.make_table(options.config, options.run or Path("runs") / "tables" / options.config.stem)
