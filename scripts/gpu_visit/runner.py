"""Runs stages as processes with a time limit each, one after the other, and writes a row for each as it ends.

The folder of a visit contains `visit.jsonl`, a JSON object for each stage that has ended, and `log`, what the
stages printed. A stage tells its results by `report`, as lines of its output, so that they stay if it is
killed.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from parser.system.processes import lifeline, start_process

if TYPE_CHECKING:
    import pytest

ROWS, LOG = "visit.jsonl", "log"
OK, FAILED, TIMED_OUT, SKIPPED = "ok", "failed", "timed out", "skipped"
MISSING = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")
SECONDS_TO_DIE = 10
"""How long a killed process is waited for. One that hangs in a driver may never end."""
RESULT = "RESULT "
"""What the line of a result starts with."""
MOST_LINES = 12
"""Lines of a failed test that are reported: the last ones. The log has all."""
Row = dict[str, Any]


class Stage(NamedTuple):
    name: str
    arguments: Sequence[str]
    """Of this Python, in the folder of the checkout."""
    limit: float
    """Seconds after which the stage is killed."""
    least: float | None = None
    """Seconds without which it is not started; None for the whole limit."""
    data: Sequence[str] = ()
    """Files below PARSER_DATA that it needs."""
    each_call: bool = False
    """Whether each call runs it again. If it fails, nothing else is run."""


@dataclass(frozen=True)
class Visit:
    """Where stages run, and what the rows of all stages contain."""

    folder: Path
    environment: Mapping[str, str]
    is_rehearsal: bool
    commit: str | None

    def rows(self) -> list[Row]:
        """The rows of earlier calls. Raises ValueError if rehearsals and real visits would be mixed."""
        path = self.folder / ROWS
        rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []
        if any(row["rehearsal"] != self.is_rehearsal for row in rows):
            held = "a visit" if self.is_rehearsal else "a rehearsal"
            raise ValueError(f"{self.folder} holds {held}: name another folder")
        return rows

    def run(self, stage: Stage, seconds: float, machine: Mapping[str, Any]) -> Row:
        """Run a stage for at most `seconds`, and write its row. machine: the part of the row about it."""
        began, now = datetime.now(UTC).isoformat(timespec="seconds"), time.monotonic()
        self.folder.mkdir(parents=True, exist_ok=True)
        results: list[Any] = []
        why = _missing_data(stage.data, self.environment)
        if why:
            status = SKIPPED
        else:
            with (self.folder / LOG).open("ab+") as log:
                log.write(f"\n===== {stage.name}, {began}\n".encode())
                log.flush()
                start = log.tell()
                code = _exit_code(stage.arguments, self.environment, log.fileno(), seconds)
                log.seek(start)
                output = log.read().decode(errors="replace")
            results = _reported(output)
            status, why = _outcome(code, output, seconds)
        row: Row = {"stage": stage.name, "status": status, **({"why": why} if why else {})}
        row |= {"began": began, "seconds": round(time.monotonic() - now, 2), "results": results}
        row |= {"rehearsal": self.is_rehearsal, "commit": self.commit, "machine": dict(machine)}
        with (self.folder / ROWS).open("a", encoding="utf-8") as file:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
        return row


def run_stages(visit: Visit, stages: Sequence[Stage], seconds: float, again: Sequence[str]) -> list[str]:
    """Run the stages that have not ended in an earlier call and still fit into `seconds`.

    A skipped stage is tried again. again: names of stages that are run once more. Returns the names of those
    that are left. Raises ValueError if a stage of each call fails.
    """
    end = time.monotonic() + seconds
    machine: Mapping[str, Any] = {}
    ended = {row["stage"] for row in visit.rows() if row["status"] != SKIPPED}.difference(again)
    left = []
    for stage in stages:
        if stage.name in ended and not stage.each_call:
            continue
        rest = end - time.monotonic()
        if rest < (stage.limit if stage.least is None else stage.least):
            left.append(stage.name)
            continue
        print(f"{stage.name}: at most {min(stage.limit, rest):.0f} s", flush=True)
        row = visit.run(stage, min(stage.limit, rest), machine)
        print(f"{stage.name}: {summary(row)}", flush=True)
        if stage.each_call:
            if row["status"] != OK:
                raise ValueError(f"{stage.name} {row['status']}; {visit.folder / LOG} has its output")
            machine = row["results"][-1]
    return left


def summary(row: Row) -> str:
    """The outcome of a stage in one line."""
    why = f": {row['why']}" if "why" in row else ""
    results = len(row["results"])
    return f"{row['status']}{why}, {row['seconds']} s, {results} {'result' if results == 1 else 'results'}"


def _missing_data(paths: Sequence[str], environment: Mapping[str, str]) -> str | None:
    folder = environment.get("PARSER_DATA")
    if paths and not folder:
        return "PARSER_DATA is not set"
    missing = [path for path in paths if not (Path(folder or "") / path).is_file()]
    return f"PARSER_DATA holds no {missing[0]}" if missing else None


def _exit_code(
    arguments: Sequence[str], environment: Mapping[str, str], output: int, seconds: float
) -> int | None:
    """Run this Python, and kill what is left of its process group when it has ended; None after `seconds`.

    The group is killed also if this process is.
    """
    command = [sys.executable, *arguments]
    with lifeline() as line:
        process = start_process(command, line, env=environment, stdout=output, stderr=subprocess.STDOUT)
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):
                process.wait(SECONDS_TO_DIE)


def _reported(output: str) -> list[Any]:
    """What the stage reported, except for a line that it did not finish."""
    results = []
    for line in output.splitlines():
        _, mark, text = line.partition(RESULT)
        if mark:
            with suppress(json.JSONDecodeError):
                results.append(json.loads(text))
    return results


def _outcome(code: int | None, output: str, seconds: float) -> tuple[str, str | None]:
    """The status of a stage by its exit code, and why it is not OK."""
    if code is None:
        return TIMED_OUT, f"killed after {seconds:.0f} s"
    if not code:
        return OK, None
    last = next(filter(None, reversed(output.splitlines())), "")
    if missing := MISSING.search(last):
        return SKIPPED, f"the package {missing[1]} is missing"
    return FAILED, f"ended by {signal.Signals(-code).name}" if code < 0 else last[:500]


def report(**result: Any) -> None:
    """Print a result, in JSON types."""
    print(f"\n{RESULT}{json.dumps(result, ensure_ascii=False)}", flush=True)


class TestReporter:
    """A plugin of pytest that reports failures at once: a run that is killed does not print them."""

    __test__ = False

    def __init__(self) -> None:
        self.outcomes = Counter[str]()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome != "passed":
            self._note(report.outcome, report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._note("not collected", report)

    def _note(self, outcome: str, test: pytest.TestReport | pytest.CollectReport) -> None:
        self.outcomes[outcome] += 1
        if outcome not in ("passed", "skipped"):
            print(f"\n{outcome}: {test.nodeid}\n{test.longreprtext}", flush=True)
            report(test=test.nodeid, outcome=outcome, lines=test.longreprtext.splitlines()[-MOST_LINES:])
