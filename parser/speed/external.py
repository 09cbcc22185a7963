"""Other programs in the same turns: each is started once in each turn, and prints its own speed.

What counts as its time is the program's own business: a parser should leave out the loading of its model.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

from tqdm import tqdm

from parser.config import data_path
from parser.console import PROGRESS_BAR, say
from parser.speed.rows import OK, Row
from parser.speed.settings import External, SpeedConfig
from parser.speed.statistics import median_of
from parser.stamp import append_stamped

ROWS = "external.jsonl"
SHOWN = 500
"""Characters of a failed program's output that a message shows."""


class ExternalError(Exception):
    """The program failed, or did not print its speed."""


def measure_external(config: SpeedConfig, folder: Path) -> list[Row]:
    """Measure all programs in turns, unless the folder has all of them already. Returns their rows.

    The first run of each is not counted; it reads files into memory. A program that fails is left out.
    """
    rows = external_rows(config, folder)
    if len(rows) == len(config.external):
        return rows
    folder.mkdir(parents=True, exist_ok=True)
    for row in _measured(config):
        append_stamped(folder / ROWS, row)
        say(summary(row))
    return external_rows(config, folder)


def external_rows(config: SpeedConfig, folder: Path) -> list[Row]:
    """The last rows of a config's programs in a run's folder."""
    path = folder / ROWS
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines()) if path.is_file() else ()
    found = {(row["name"], row["command"]): row for row in rows}
    wanted = [(name, program.command) for name, program in config.external.items()]
    return [found[key] for key in wanted if key in found]


def summary(row: Row) -> str:
    """The result of a program in one line."""
    if row["status"] != OK:
        return f"{row['name']:<40} {row['status']}"
    speed = median_of(row["speeds"])
    return f"{row['name']:<40} {speed.value:9,.1f} sentences/s [{speed.low:,.1f}, {speed.high:,.1f}]"


def _measured(config: SpeedConfig) -> list[Row]:
    speeds: dict[str, list[float]] = {name: [] for name in config.external}
    failures: dict[str, str] = {}
    with tqdm(total=(1 + config.external_turns) * len(speeds), desc="programs", **PROGRESS_BAR) as bar:
        for turn in range(1 + config.external_turns):
            for name, program in config.external.items():
                bar.update()
                if name in failures:
                    continue
                try:
                    speed = printed_speed(program, config.timeout)
                except ExternalError as error:
                    failures[name] = f"error: {error}"
                    continue
                if turn:
                    speeds[name].append(speed)
    return [
        {
            "name": name,
            **program.model_dump(),
            "status": failures.get(name, OK),
            "speeds": [] if name in failures else speeds[name],
        }
        for name, program in config.external.items()
    ]


def printed_speed(program: External, timeout: float) -> float:
    """Run a program; returns the sentences per second that it prints. Raises ExternalError."""
    try:
        done = subprocess.run(
            data_path(program.command),
            shell=True,  # as in a Makefile
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ExternalError(f"no end after {timeout:g} s") from None
    output = done.stdout + done.stderr
    end = output[-SHOWN:].strip()
    if done.returncode:
        raise ExternalError(f"it ended with status {done.returncode}: {end}")
    found = re.search(program.pattern, output)
    if not found:
        raise ExternalError(f"its output has no {program.pattern!r}: {end}")
    try:
        speed = float(found.group(1).replace(",", ""))
    except ValueError:
        raise ExternalError(f"{found.group(1)!r} is no number of sentences per second") from None
    if not speed > 0:
        raise ExternalError(f"it printed a speed of {speed:g}")
    return speed
