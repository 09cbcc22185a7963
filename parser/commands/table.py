"""`stack-parser table`: train the parsers of a table, and write it."""

from __future__ import annotations

import argparse
from pathlib import Path

from parser.tables import commands


def make_table(options: argparse.Namespace) -> None:
    commands.make_table(options.config, options.folder or Path("runs") / "tables" / options.config.stem)
