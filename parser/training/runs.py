"""The training runs of a table: missing runs are trained in parallel processes, and results are kept."""

from __future__ import annotations

import hashlib
import json
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from parser.system.console import LinesError, say
from parser.system.files import file_lock, refuse_folder_of_others, write_atomically
from parser.system.interruption import StoppedError, stop_request
from parser.system.processes import end, environment, lifeline, python, start_process
from parser.training.config import Config
from parser.training.folder import CHECKPOINT
from parser.training.forecast import Forecast, cost_of, planned_run
from parser.training.record import epochs_of, read_result

ROWS, RUNS, LOCK = "rows.jsonl", "runs", "lock"
POLL_SECONDS = 0.5
STOPPED = "stopped; the results are kept, continue with the same command"
MAX_NAME = 100
"""Maximum number of characters of a row's name in the name of its run's folder."""
CURVE = ("seconds", "preparation_seconds", "dev_las", "loss")
"""Metrics of each epoch that a row keeps. Older runs have no `preparation_seconds`."""
Row = dict[str, Any]


@dataclass(frozen=True)
class Job:
    """One run: the names of its table and of its row, its seed and its complete config."""

    table: str
    name: str
    seed: int
    config: Config = field(compare=False)

    def run_in(self, folder: Path) -> Path:
        """The run's folder. Its name depends on the config, so that no run resumes a different one."""
        readable = re.sub(r"[^\w.]+", "-", self.name).strip("-")[:MAX_NAME]
        content = json.dumps(self.config.model_dump(mode="json", exclude_defaults=True), sort_keys=True)
        checksum = hashlib.sha256(content.encode()).hexdigest()[:8]
        return folder / RUNS / f"{readable}-seed-{self.seed}-{checksum}"


def read_rows(path: Path) -> list[Row]:
    """The rows in a file; empty if there is no file. Raises ValueError for a file with other content."""
    # Bytes, because in text lines would also end within strings, at U+2028 and others.
    lines = path.read_bytes().splitlines() if path.exists() else []
    rows = []
    for number, line in enumerate(lines, 1):
        try:
            rows.append(json.loads(line))
            _config(rows[-1])
        except (ValueError, KeyError, TypeError):
            raise ValueError(f"{path}:{number}: not a row of a table; move the file away") from None
    return rows


def rows_of(jobs: Iterable[Job], rows: Iterable[Row]) -> dict[Job, Row]:
    """The rows of the runs that are done. They are found by config, since the name of a row may have changed.

    rows: the rows of one table.
    """
    kept = [(_config(row), row) for row in rows]
    return {job: row for job in jobs for config, row in kept if config == job.config}


def _config(row: Row) -> Config | None:
    """The config of a row; None if it is from an incompatible version."""
    try:
        return Config.model_validate_json(json.dumps(row["config"]))
    except ValidationError:
        return None


def run_missing(jobs: Sequence[Job], folder: Path, together: int) -> Iterator[Job]:
    """Train the runs that are not done, `together` in parallel. Yields each run after writing its row.

    No process is left running, however this ends. Raises StoppedError on a signal, after the runs have saved
    their checkpoints, and ValueError at the end if runs failed.
    """
    pending = missing(jobs, folder)
    forecast = forecast_of(jobs, pending, folder, together)
    running: dict[subprocess.Popen[bytes], Job] = {}
    failed: list[str] = []
    with stop_request() as request, lifeline() as line:
        try:
            while pending or running:
                while pending and len(running) < together:
                    job = pending.pop(0)
                    running[start(prepared_run(job, folder), line)] = job
                    say(f"{job.name}, seed {job.seed}: running in {job.run_in(folder)}")
                time.sleep(POLL_SECONDS)
                forecast.tell({job.run_in(folder) for job in (*pending, *running.values())})
                if request.signal is not None:
                    stop(list(running))
                    raise StoppedError(STOPPED, request.signal)
                for process in [process for process in running if process.poll() is not None]:
                    job = running.pop(process)
                    end(process)  # also ends the process that watches it
                    if process.returncode:
                        failed.append(failure(job, folder, process.returncode))
                        say(failed[-1])
                        continue
                    keep(job, folder, together)
                    yield job
        finally:
            stop(list(running))
    if failed:
        raise LinesError(*failed)


def forecast_of(jobs: Sequence[Job], pending: Sequence[Job], folder: Path, together: int) -> Forecast:
    """A forecast for the runs of a table; prints how much there is to do. pending: those that are missing.

    Raises what `size_of` raises.
    """
    works = {job: planned_run(job.name, job.config, job.run_in(folder)) for job in jobs}
    if pending:
        say(cost_of([works[job] for job in pending]))
    return Forecast(list(works.values()), together)


def missing(jobs: Sequence[Job], folder: Path) -> list[Job]:
    done = rows_of(jobs, read_rows(folder / ROWS))
    return [job for job in jobs if job not in done]


def prepared_run(job: Job, folder: Path) -> Path:
    """The folder of a run; writes a copy of its config next to it, which cannot change from then on."""
    run = job.run_in(folder)
    run.parent.mkdir(parents=True, exist_ok=True)
    config = yaml.safe_dump(job.config.model_dump(mode="json"), sort_keys=False)
    write_atomically(_beside(run, ".yaml"), config.encode())
    return run


def start(run: Path, line: int, folder: str | None = None, **variables: str) -> subprocess.Popen[bytes]:
    """Start a training process, which Ctrl-C does not reach.

    run: a folder from `prepared_run`. line: the lifeline with which the process ends. folder: its working
    directory. variables: additional environment variables.
    """
    config = _beside(run, ".yaml")
    command = python("-m", "parser", "train", str(config), "--run", str(run))
    if (run / CHECKPOINT).is_file():
        command.append("--resume")
    with _beside(run, ".log").open("ab") as log:
        return start_process(command, line, stdout=log, stderr=log, cwd=folder, env=environment(**variables))


def stop(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Let training processes save their checkpoints and exit."""
    for process in processes:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
    for process in processes:
        process.wait()


def _beside(run: Path, suffix: str) -> Path:
    """The path of a file next to the folder of a run."""
    return run.with_name(f"{run.name}{suffix}")


def failure(job: Job, folder: Path, code: int) -> str:
    """Why a run failed, as a message. code: the exit code of its process."""
    log = _beside(job.run_in(folder), ".log")
    last = "".join(log.read_text(encoding="utf-8", errors="replace").rstrip().splitlines()[-1:])
    killed = (
        f"killed by signal {-code}; if memory ran out, let fewer run at the same time. " if code < 0 else ""
    )
    return f"{job.name}, seed {job.seed}: failed: {killed}{last} (complete log: {log})"


def keep(job: Job, folder: Path, together: int) -> None:
    """Add the row of a finished run to the file, completely or not at all."""
    run = job.run_in(folder)
    row = {
        "table": job.table,
        "name": job.name,
        "seed": job.seed,
        "together": together,
        "config": job.config.model_dump(mode="json"),
        **read_result(run),
        "curve": [{key: epoch[key] for key in CURVE if key in epoch} for epoch in epochs_of(run)],
    }
    path = folder / ROWS
    before = path.read_bytes() if path.exists() else b""
    write_atomically(path, before + json.dumps(row, ensure_ascii=False).encode() + b"\n")


@contextmanager
def claimed_folder(folder: Path, option: str) -> Iterator[None]:
    """Lock the folder of a table. option: the option that names the folder, for messages.

    Raises ValueError if another process holds the lock, or if the folder contains something else.
    """
    refuse_folder_of_others(folder, (folder / ROWS).is_file(), LOCK, option)
    folder.mkdir(parents=True, exist_ok=True)
    if_locked = f"{folder}: another process makes a table there; choose another folder with {option}"
    with file_lock(folder / LOCK, if_locked):
        (folder / ROWS).touch()
        yield


def train_missing(
    jobs: Sequence[Job], folder: Path, runs: Iterator[Job], write: Callable[[dict[Job, Row]], Path]
) -> Path:
    """Train the missing runs, and write the table before the first and after each; returns the table's path.

    runs: see `run_missing`; raises what that raises. write: writes the table of the finished rows.
    """
    report = write(rows_of(jobs, read_rows(folder / ROWS)))
    for job in runs:
        done = rows_of(jobs, read_rows(folder / ROWS))
        row = done[job]
        las = (f", {split} LAS {row[split]['las']:.2f}" for split in ("dev", "test") if row[split])
        say(f"{job.name}, seed {job.seed}: {row['seconds'] / 60:.1f} min{''.join(las)}")
        report = write(done)
    return report
