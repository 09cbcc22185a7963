"""Run a command, and append its output, with the machine and the commit, to a JSON Lines file.

python scripts/keep_output.py rows.jsonl stack-parser check '${PARSER_DATA}/ud/my-train.conllu'
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from parser.config.data_folder import data_path
from parser.system.provenance import append_stamped

PROGRAMS = {"stack-parser": [sys.executable, "-m", "parser"], "python": [sys.executable]}
"""Programs that run in this interpreter's environment."""
DATA = "${PARSER_DATA}"


def run(command: Sequence[str]) -> str:
    """Returns the output of a command, errors included. Raises SystemExit, with the output, if it fails.

    command: ${PARSER_DATA} stands for the data folder; if the variable is set, also in the returned text.
    """
    program, *arguments = command
    called = [*PROGRAMS.get(program, [program]), *map(data_path, arguments)]
    done = subprocess.run(called, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        sys.exit(f"{done.stdout}{program} ended with status {done.returncode}; nothing is kept")
    folder = os.environ.get("PARSER_DATA")
    if not folder:
        return done.stdout
    return re.sub(rf"(?<![\w./-]){re.escape(folder)}(?![\w-])", lambda match: DATA, done.stdout)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--name", help="of the row, if the command does not tell it from others")
    arguments.add_argument("rows", type=Path, help="JSON Lines file to which the output is appended")
    arguments.add_argument("command", nargs=argparse.REMAINDER, help="the command to run, with its arguments")
    given = arguments.parse_args()
    if not given.command:
        arguments.error("a command is missing")
    began = time.monotonic()
    printed = run(given.command)
    print(printed, end="")
    seconds = round(time.monotonic() - began, 2)
    row = {"command": given.command, "printed": printed.splitlines(), "seconds": seconds}
    append_stamped(given.rows, {"name": given.name, **row} if given.name else row)


if __name__ == "__main__":
    main()
