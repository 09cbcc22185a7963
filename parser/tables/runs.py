"""The training runs of a table: missing runs are trained in parallel processes, and results are kept."""

from __future__ import annotations

import hashlib
import json
import re
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from parser.config.file import ConfigError
from parser.system.console import LinesError, lines_of, say
from parser.system.files import write_atomically
from parser.system.interruption import StoppedError, stop_request
from parser.system.processes import end, environment, lifeline, python, start_process
from parser.tables.settings import TableConfig
from parser.training.config import Config, for_its_treebank, read_config
from parser.training.folder import CHECKPOINT
from parser.training.record import epochs_of, read_result

ROWS, RUNS = "rows.jsonl", "runs"
POLL_SECONDS = 0.5
STOPPED = "stopped; the results are kept, continue with the same command"
MAX_NAME = 100
"""Maximum number of characters of a row's name in the name of its run's folder."""
SEED = "training.seed"
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

    @property
    def folder_name(self) -> str:
        """The name of the run's folder. It depends on the config, so that no run resumes a different one."""
        readable = re.sub(r"[^\w.]+", "-", self.name).strip("-")[:MAX_NAME]
        content = json.dumps(self.config.model_dump(mode="json", exclude_defaults=True), sort_keys=True)
        return f"{readable}-seed-{self.seed}-{hashlib.sha256(content.encode()).hexdigest()[:8]}"


def jobs_of(table: TableConfig, name: str) -> list[Job]:
    """All runs of a table. Raises ConfigError for a row with invalid settings, and FileNotFoundError."""
    found = []
    for row_name, row in table.all_rows.items():
        changed = {**table.set, **row.set}
        if SEED in changed:
            raise ConfigError(
                f"row {row_name!r}: {SEED}: the seeds are 1, 2, ...; set their number with `seeds`"
            )
        for seed in range(1, (row.seeds or table.seeds) + 1):
            try:
                config = read_config(Path(row.base or table.base), values={**changed, SEED: seed})
            except ConfigError as error:
                raise ConfigError(*(f"row {row_name!r}: {line}" for line in lines_of(error))) from None
            found.append(Job(name, row_name, seed, for_its_treebank(config)))
    return found


def read_rows(path: Path) -> list[Row]:
    """The rows in a file; empty if there is no file. Raises ValueError for a file with other content."""
    # Bytes, because in text lines would also end within strings, at U+2028 and others.
    lines = path.read_bytes().splitlines() if path.exists() else []
    found = []
    for number, line in enumerate(lines, 1):
        try:
            found.append(json.loads(line))
            _config(found[-1])
        except (ValueError, KeyError, TypeError):
            raise ValueError(f"{path}:{number}: not a row of a table; move the file away") from None
    return found


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
    running: dict[subprocess.Popen[bytes], Job] = {}
    failed: list[str] = []
    with stop_request() as request, lifeline() as line:
        try:
            while pending or running:
                while pending and len(running) < together:
                    job = pending.pop(0)
                    running[start(prepared_run(job, folder), line)] = job
                    say(f"{job.name}, seed {job.seed}: running in {folder / RUNS / job.folder_name}")
                time.sleep(POLL_SECONDS)
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


def missing(jobs: Sequence[Job], folder: Path) -> list[Job]:
    """The runs that are not done."""
    done = rows_of(jobs, read_rows(folder / ROWS))
    return [job for job in jobs if job not in done]


def prepared_run(job: Job, folder: Path) -> Path:
    """The folder of a run; writes a copy of its config next to it, which cannot change from then on."""
    run = folder / RUNS / job.folder_name
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
    log = _beside(folder / RUNS / job.folder_name, ".log")
    last = "".join(log.read_text(encoding="utf-8", errors="replace").rstrip().splitlines()[-1:])
    killed = (
        f"killed by signal {-code}; if memory ran out, let fewer run at the same time. " if code < 0 else ""
    )
    return f"{job.name}, seed {job.seed}: failed: {killed}{last} (complete log: {log})"


def keep(job: Job, folder: Path, together: int) -> None:
    """Add the row of a finished run to the file, completely or not at all."""
    run = folder / RUNS / job.folder_name
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
