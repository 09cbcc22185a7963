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
from parser.files import write_atomically
from parser.lifeline import end, lifeline, started
from parser.speed.row_file import read_content
from parser.speed.rows import OK, Row
from parser.speed.settings import External, SpeedConfig
from parser.speed.statistics import median_of
from parser.stamp import stamp

ROWS = "external.jsonl"
SHOWN = 500
"""Characters of a failed program's output that a message shows."""


class ExternalError(Exception):
    """The program failed, or did not print its speed."""


def measure_external(config: SpeedConfig, folder: Path) -> list[Row]:
    """Measure all programs in turns, unless the folder has all of them already. Returns their rows.

    The first run of each is not counted; it reads files into memory. Rows are written at the end, when all
    have had the same turns. A program that fails has a row, too, and is measured again by the next call.
    """
    if not external_is_left(config, folder):
        return external_rows(config, folder)
    folder.mkdir(parents=True, exist_ok=True)
    rows = [{**row, **stamp()} for row in _measured(config)]
    lines = [*_whole_lines(folder), *(json.dumps(row, ensure_ascii=False).encode() for row in rows)]
    write_atomically(folder / ROWS, b"".join(line + b"\n" for line in lines))
    for row in rows:
        say(summary(row))
    return external_rows(config, folder)


def external_is_left(config: SpeedConfig, folder: Path) -> bool:
    rows = external_rows(config, folder)
    measured = [row for row in rows if row["status"] == OK and len(row["speeds"]) == config.external_turns]
    return len(measured) < len(config.external)


def external_rows(config: SpeedConfig, folder: Path) -> list[Row]:
    """The last rows of a config's programs in a run's folder."""
    rows = map(json.loads, _whole_lines(folder))
    found = {(row["name"], row["command"], row["pattern"]): row for row in rows}
    wanted = [(name, each.command, each.pattern) for name, each in config.external.items()]
    return [found[key] for key in wanted if key in found]


def _whole_lines(folder: Path) -> list[bytes]:
    """The lines of the file of rows, but a last one without an end."""
    content = read_content(folder / ROWS)
    return content[: content.rfind(b"\n") + 1].splitlines()


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
    output, status = _run(data_path(program.command), timeout)
    told = output[-SHOWN:].strip()
    if status:
        raise ExternalError(f"it ended with status {status}: {told}")
    found = re.search(program.pattern, output)
    if not found or found.group(1) is None:
        raise ExternalError(f"its output has no {program.pattern!r}: {told}")
    try:
        speed = float(found.group(1).replace(",", ""))
    except ValueError:
        raise ExternalError(f"{found.group(1)!r} is no number of sentences per second") from None
    if not speed > 0:
        raise ExternalError(f"it printed a speed of {speed:g}")
    return speed


def _run(command: str, timeout: float) -> tuple[str, int]:
    """Output and exit status of a shell command. Nothing of it is left running. Raises ExternalError."""
    with (
        lifeline() as line,
        started(
            ["/bin/sh", "-c", command],  # as in a Makefile
            line,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as process,
    ):
        try:
            output, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            raise ExternalError(f"no end after {timeout:g} s") from None
        finally:
            end(process)
    return output, process.returncode
