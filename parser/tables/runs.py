"""The training runs of a table: what is missing is run, some at a time, and each is kept as it ends."""

from __future__ import annotations

import hashlib
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from parser.config import Config
from parser.config_file import ConfigError, read_config
from parser.console import say
from parser.files import replace_file
from parser.stamp import stamp
from parser.tables.settings import TableConfig
from parser.training.folder import METRICS
from parser.training.interruption import StoppedError, stop_request
from parser.training.result import read_result

ROWS, RUNS = "rows.jsonl", "runs"
SECONDS_BETWEEN_LOOKS = 0.5
Row = dict[str, Any]


@dataclass(frozen=True)
class Job:
    """One run: a row's name, a seed, and all that the config says."""

    name: str
    seed: int
    base: str
    changes: tuple[str, ...]
    config: Config = field(compare=False)

    @property
    def folder_name(self) -> str:
        """Another for every other config, so that no run goes on with what another began."""
        readable = re.sub(r"[^\w.]+", "-", self.name).strip("-")
        digest = hashlib.sha256(self.config.model_dump_json().encode()).hexdigest()
        return f"{readable}-seed-{self.seed}-{digest[:8]}"

    def made(self, row: Row) -> bool:
        """Whether the row is of this run; its name may be another by now."""
        return bool(row["config"] == json.loads(self.config.model_dump_json()))


def jobs(table: TableConfig) -> list[Job]:
    """All runs of a table. Raises ConfigError for a row that is no config, FileNotFoundError."""
    found = []
    for name, row in table.rows.items():
        for seed in range(1, (row.seeds or table.seeds) + 1):
            changes = [f"{key}={json.dumps(value)}" for key, value in row.set.items()]
            changes.append(f"training.seed={seed}")
            try:
                config = read_config(Path(table.base), changes)
            except ConfigError as error:
                raise ConfigError(f"row {name!r}: {error}") from None
            found.append(Job(name, seed, table.base, tuple(changes), config))
    return found


def rows_of(table: TableConfig, folder: Path) -> dict[Job, Row]:
    """Those runs that are done. Raises ValueError for a file of rows that holds other things."""
    path = folder / ROWS
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    kept = []
    for number, line in enumerate(lines, 1):
        try:
            kept.append(json.loads(line))
            kept[-1]["config"]
        except (ValueError, KeyError, TypeError):
            raise ValueError(f"{path}:{number}: not a row of a table; move the file away") from None
    return {job: row for job in jobs(table) for row in kept if job.made(row)}


def run_missing(table: TableConfig, folder: Path) -> Iterator[Job]:
    """Run what is not done, in the table's order; yields each run that has been kept.

    Raises StoppedError if a signal asks for it, after all runs have saved what they have; ValueError, at the
    end, for runs that failed.
    """
    done = rows_of(table, folder)
    waiting = [job for job in jobs(table) if job not in done]
    running: dict[subprocess.Popen[bytes], Job] = {}
    failed: list[str] = []
    with stop_request() as request:
        while waiting or running:
            while waiting and len(running) < table.together:
                job = waiting.pop(0)
                running[_start(job, folder)] = job
                say(f"{job.name}, seed {job.seed}: running in {folder / RUNS / job.folder_name}")
            time.sleep(SECONDS_BETWEEN_LOOKS)
            if request.signal is not None:
                _stop(list(running))
                message = "stopped; what is done is kept, go on with the same command"
                raise StoppedError(message, request.signal)
            for process in [process for process in running if process.poll() is not None]:
                job = running.pop(process)
                if process.returncode:
                    failed.append(_why(job, folder))
                    say(failed[-1])
                    continue
                _keep(job, folder)
                yield job
    if failed:
        raise ValueError("\n".join(failed))


def _start(job: Job, folder: Path) -> subprocess.Popen[bytes]:
    """In a session of its own: Ctrl-C comes here alone, and is handed on once."""
    run = folder / RUNS / job.folder_name
    run.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "parser", "train", job.base, "--run", str(run), "--resume"]
    for change in job.changes:
        command += ["--set", change]
    with _log(job, folder).open("ab") as log:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )


def _stop(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.send_signal(signal.SIGTERM)
    for process in processes:
        process.wait()


def _log(job: Job, folder: Path) -> Path:
    return folder / RUNS / f"{job.folder_name}.log"


def _why(job: Job, folder: Path) -> str:
    log = _log(job, folder)
    last = log.read_text(encoding="utf-8", errors="replace").rstrip().splitlines()[-1:]
    return f"{job.name}, seed {job.seed}: failed: {''.join(last)} (all of it: {log})"


def _keep(job: Job, folder: Path) -> None:
    """Add its row to the file, which has it whole or not at all."""
    run = folder / RUNS / job.folder_name
    curve = [json.loads(line) for line in (run / METRICS).read_text(encoding="utf-8").splitlines()]
    row = {
        "name": job.name,
        "seed": job.seed,
        "config": json.loads(job.config.model_dump_json()),
        **read_result(run),
        "curve": [{key: epoch[key] for key in ("seconds", "dev_las", "loss")} for epoch in curve],
        **stamp(),
    }
    path = folder / ROWS
    before = path.read_bytes() if path.exists() else b""
    replace_file(path, before + json.dumps(row, ensure_ascii=False).encode() + b"\n")
