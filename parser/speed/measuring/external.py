"""Measures other programs in turns: each is started once in each turn, and prints its own speed.

The program decides which time it counts: a parser should leave out the loading of its model.
"""

from __future__ import annotations

import re
import subprocess
from itertools import product
from pathlib import Path

from parser.config.data_folder import data_path
from parser.evaluation.statistics import median_of
from parser.speed.measuring.cells import SpeedConfig
from parser.speed.measuring.rows import OK, SKIPPED, ExternalProgram, ExternalRow, RowFile, new_row
from parser.system.console import say
from parser.system.processes import end, lifeline, start_process
from parser.system.progress_bar import PROGRESS_BAR, ProgressBar

ROWS = "external.jsonl"
SHOWN = 500
"""Maximum characters of a failed program's output that a message shows."""


class ExternalError(Exception):
    """The program failed, or did not print its speed."""


def measure_external(config: SpeedConfig, folder: Path) -> None:
    """Measure the programs of each task in turns, unless the folder contains all of their rows already.

    The first run of each program is not counted; it reads files into memory. The rows of a task are written
    at its end, after all programs have had the same turns. A failed program gets a row, too, and its task is
    measured again by the next call, as is a task with a skipped program that can be measured by then.
    """
    rows = _row_file(folder)
    for programs in _tasks_left(config, rows):
        folder.mkdir(parents=True, exist_ok=True)
        speeds: dict[ExternalProgram, list[float]] = {program: [] for program in programs}
        failed: dict[ExternalProgram, str] = {}  # the statuses
        for program in programs:
            if missing := _missing(program, config):
                failed[program] = f"{SKIPPED}: no {missing}"
        runs = 1 + config.external_turns
        with ProgressBar(total=runs * len(speeds), desc="programs", **PROGRESS_BAR) as bar:
            for turn, program in product(range(runs), programs):
                bar.update()
                if program not in failed:
                    try:
                        speed = printed_speed(program, config.timeout)
                        speeds[program] += [speed] if turn else []
                    except ExternalError as error:
                        failed[program] = f"error: {error}"
        for program in programs:
            measured = {"status": failed[program]} if program in failed else {"speeds": speeds[program]}
            row = new_row(ExternalRow, program, **measured)
            rows.add(row)
            say(summary(row))


def external_is_left(config: SpeedConfig, folder: Path) -> bool:
    return bool(_tasks_left(config, _row_file(folder)))


def external_rows(config: SpeedConfig, folder: Path) -> list[ExternalRow]:
    """Return the last rows of a config's programs in a run's folder."""
    return _row_file(folder).of(_programs(config))


def summary(row: ExternalRow) -> str:
    """Return the result of a program in one line."""
    if row.status != OK:
        return f"{row.name:<40} {row.status}"
    speed = median_of(row.speeds)
    return f"{row.name:<40} {speed.value:9,.1f} examples/s [{speed.low:,.1f}, {speed.high:,.1f}]"


def _row_file(folder: Path) -> RowFile[ExternalRow]:
    return RowFile(folder / ROWS, ExternalRow, ExternalRow)


def _programs(config: SpeedConfig) -> list[ExternalProgram]:
    return [
        ExternalProgram(name, program.command, program.pattern, program.task)
        for name, program in config.external.items()
    ]


def _tasks_left(config: SpeedConfig, rows: RowFile[ExternalRow]) -> list[list[ExternalProgram]]:
    """Return the programs of each task in which some are still to be measured."""
    tasks: dict[str, list[ExternalProgram]] = {}
    for program in _programs(config):
        tasks.setdefault(program.task, []).append(program)

    def is_left(program: ExternalProgram) -> bool:
        row = rows.find(program)
        if row is None or _missing(program, config) is None:
            return row is None or row.status != OK or len(row.speeds) != config.external_turns
        return False

    return [programs for programs in tasks.values() if any(map(is_left, programs))]


def _missing(program: ExternalProgram, config: SpeedConfig) -> str | None:
    """Return what the program needs and is missing, or None."""
    needs = map(data_path, config.external[program.name].needs)
    return next((path for path in needs if not Path(path).exists()), None)


def printed_speed(program: ExternalProgram, timeout: float) -> float:
    """Run a program, and return the sentences per second that it prints. Raises ExternalError."""
    output, status = _run(data_path(program.command), timeout)
    told = output[-SHOWN:].strip()
    if status:
        raise ExternalError(f"it ended with status {status}: {told}")
    match = re.search(program.pattern, output)
    if not match or match.group(1) is None:
        raise ExternalError(f"its output has no {program.pattern!r}: {told}")
    try:
        speed = float(match.group(1).replace(",", ""))
    except ValueError:
        raise ExternalError(f"{match.group(1)!r} is no number of sentences per second") from None
    if not speed > 0:
        raise ExternalError(f"it printed a speed of {speed:g}")
    return speed


def _run(command: str, timeout: float) -> tuple[str, int]:
    """Run a shell command, and return its output and exit status. None of its processes is left running.
    Raises ExternalError.
    """
    with (
        lifeline() as line,
        start_process(
            ["/bin/sh", "-c", command],  # like in a Makefile
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
