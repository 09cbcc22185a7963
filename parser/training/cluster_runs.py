"""The training runs of a table on the machines of a Ray cluster, which share its folder: each run is a task.

Ray decides where and when a task runs, and restarts it elsewhere if its worker dies; the run then continues
from its checkpoint.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from parser.system.console import LinesError, counted, say
from parser.system.files import file_lock, real_path
from parser.system.interruption import StoppedError, stop_request
from parser.system.processes import end, lifeline
from parser.system.ray_cluster import cluster, library
from parser.training.config import Config
from parser.training.folder import LOCK
from parser.training.runs import (
    POLL_SECONDS,
    STOPPED,
    Job,
    failure,
    forecast_of,
    keep,
    missing,
    prepared_run,
    start,
    stop,
)

MOST_ATTEMPTS = 5
"""Number of workers that may die while running a task before it is given up."""
SECONDS_TO_STOP = 60
"""Seconds in which runs save their checkpoints after a signal."""
SENT = "PARSER_DATA", "PARSER_MODELS"
"""Environment variables that are passed on to a run; it gets all others from its machine."""


def run_on_cluster(jobs: Sequence[Job], folder: Path, address: str) -> Iterator[Job]:
    """Like `run_missing`, but on a cluster. The first jobs are started first.

    Raises ValueError if there is no such cluster.
    """
    pending = missing(jobs, folder)
    if not pending:
        return
    ray = library()
    failed: list[str] = []
    threads = max(job.config.threads for job in pending)
    for job in pending:
        if ":" in job.config.device:
            raise ValueError(
                f"{job.name}: device {job.config.device}: the cluster chooses a GPU; write cuda, or auto"
            )
    with cluster(address, None, threads) as room, stop_request() as request:
        gpus = int(ray.cluster_resources().get("GPU", 0))
        together = min(room, gpus) if any(_gpus(job.config) for job in pending) else room
        say(f"{counted(len(pending), 'run')} on a cluster with room for {together}")
        forecast = forecast_of(jobs, pending, folder, together)
        running = {_submitted(job, folder): job for job in pending}
        try:
            while running:
                ready, _ = ray.wait(list(running), timeout=POLL_SECONDS)
                forecast.tell({job.run_in(folder) for job in running.values()})
                if request.signal is not None:
                    raise StoppedError(STOPPED, request.signal)
                for task in ready:
                    job = running.pop(task)
                    if reason := _reason(task, job, folder):
                        failed.append(reason)
                        say(reason)
                        continue
                    keep(job, folder, together)
                    yield job
        finally:
            for task in running:
                ray.cancel(task)
            if running:
                ray.wait(list(running), num_returns=len(running), timeout=SECONDS_TO_STOP)
    if failed:
        raise LinesError(*failed)


def _submitted(job: Job, folder: Path) -> Any:
    """Submit a run to the cluster; returns its task."""
    ray = library()
    run = real_path(prepared_run(job, folder))
    sent = {name: os.path.abspath(os.environ[name]) for name in SENT if name in os.environ}
    task = ray.remote(_train).options(
        name=job.name, num_cpus=job.config.threads, num_gpus=_gpus(job.config), max_retries=MOST_ATTEMPTS - 1
    )
    return task.remote(run, os.getcwd(), sent)


def _gpus(config: Config) -> int:
    has_gpus = library().cluster_resources().get("GPU", 0) > 0
    return int(has_gpus and config.device != "cpu")


def _train(run: Path, directory: str, sent: Mapping[str, str]) -> int:
    """In a worker: train in a separate process, which ends with the worker. Returns its exit code.

    It waits until the training process of a worker that died has ended, too, which it does at once.
    """
    given_up = time.monotonic() + SECONDS_TO_STOP
    while (run / LOCK).is_file():
        try:
            with file_lock(run / LOCK, "locked"):
                break
        except ValueError:
            if time.monotonic() > given_up:
                break  # the run will report that another process trains there
            time.sleep(POLL_SECONDS)
    with lifeline() as line:
        process = start(run, line, directory, **sent)
        try:
            return process.wait()
        finally:
            stop([process])
            end(process)


def _reason(task: Any, job: Job, folder: Path) -> str:
    """Why a finished task failed; empty if it did not fail."""
    ray = library()
    try:
        code = ray.get(task)
    except ray.exceptions.RayTaskError as error:
        return f"{job.name}, seed {job.seed}: failed: {error.cause!r}"
    except ray.exceptions.RayError as error:
        what = str(error).partition("\n")[0]
        deaths = ray.exceptions.WorkerCrashedError, ray.exceptions.NodeDiedError
        died = f"{counted(MOST_ATTEMPTS, 'worker')} died of it: " if isinstance(error, deaths) else ""
        return f"{job.name}, seed {job.seed}: failed: {died}{what}"
    return failure(job, folder, code) if code else ""
