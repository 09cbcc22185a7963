"""Train an experiment of a speed config by messages, with a progress bar, TensorBoard and a Gantt chart.

python scripts/studies/batching/train_by_messages.py configs/speed/messages.yaml mnist --method active-4 \\
    --epochs 3

With a process instead of a thread for each worker, on one machine or several:

torchrun --nproc-per-node 2 scripts/studies/batching/train_by_messages.py configs/speed/messages.yaml mnist
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from torch.utils.tensorboard import SummaryWriter
from tqdm import tqdm

from parser.batching.messages.asynchronous_updates import Parameterised, mean_staleness, parameterised_nodes
from parser.batching.messages.processes import Processes
from parser.batching.messages.workers import Report, Span
from parser.config.file import read_settings
from parser.pages.plot_style import COLOURS, LABEL_SIZE, WIDTH, svg
from parser.speed.measuring.cells import SpeedConfig, validated
from parser.speed.tasks.discovery import find
from parser.speed.tasks.message_training import (
    ACTIVE,
    AsynchronySettings,
    BatchMessagePlugin,
    MessageRun,
    MessageTraining,
    accuracy,
)
from parser.speed.tasks.plugin import Setup
from parser.system.machine import tune_process

SHOWN = 90
"""The number of messages in the chart, from the middle of the first run."""
LANE = 0.8
"""The height of a bar, as a share of the distance between two workers."""
BACKWARD = "//"


def prepared(config: SpeedConfig, experiment: str, method: str, batch_size: int, workers: int) -> Any:
    """The prepared plugin. Raises ValueError for an unknown experiment or method, and without workers."""
    if workers < 1:
        raise ValueError("--workers must be at least 1")
    if experiment not in config.experiments:
        raise ValueError(f"there is no experiment {experiment!r}, but {', '.join(config.experiments)}")
    asked = config.experiments[experiment]
    kind = find(asked.plugin)
    if method not in kind.methods["train"]:
        raise ValueError(f"{asked.plugin} cannot be trained by {method!r}")
    settings = validated(kind, asked.settings)
    assert isinstance(settings, AsynchronySettings)  # its methods are those of messages
    if dist.is_torchelastic_launched() and settings.workers == "processes":
        raise ValueError(f"{experiment} starts processes itself: do not start it with torchrun")
    plugin = kind()
    device = torch.device("cpu")
    setup = Setup(
        settings, method, "train", batch_size, device, config.seed, lambda _: nullcontext(), workers
    )
    if reason := plugin.skip(setup):
        raise ValueError(reason)
    plugin.prepare(setup)
    return plugin


class TrainingLog:
    """Logs to TensorBoard. A run is one batch of the plugin."""

    def __init__(self, messages: MessageTraining, folder: Path):
        self._messages, self._board, self._runs = messages, SummaryWriter(str(folder)), 0

    def __call__(self, ran: MessageRun, spans: Sequence[Span]) -> float:
        """Log a run. Returns the mean loss."""
        self._runs += 1
        trained = ran.of(training=True)
        loss = mean_loss(trained)
        self._write("loss", loss)
        self._write("accuracy", accuracy(trained))
        took = max(span.ended for span in spans) - min(span.began for span in spans)
        for worker, busy in enumerate(ran.busy, 1):
            of_worker = [span.waiting for span in spans if span.worker == worker - 1]
            self._write(f"worker {worker}/busy", busy / took)
            self._write(f"worker {worker}/messages waiting", sum(of_worker) / max(1, len(of_worker)))
        for name, node in self._messages.graph.nodes.items():
            if isinstance(node, Parameterised) and node.staleness:
                self._write(f"staleness/{name}", mean_staleness(node.staleness))
        return loss

    def score(self, epoch: int, score: float) -> None:
        self._board.add_scalar("score", score, epoch)
        self._board.flush()

    def _write(self, name: str, value: float) -> None:
        self._board.add_scalar(name, value, self._runs)


def train(plugin: Any, epochs: int, folder: Path, validate: bool) -> None:
    """Train in threads. validate: also run the held-out examples, a part with each run, during training."""
    watch, runs = TrainingLog(plugin.messages, folder), plugin.batches()
    held_out = plugin.held_out_batches() if validate else []
    for epoch in range(1, epochs + 1):
        validated: list[Report] = []
        with tqdm(runs, desc=f"epoch {epoch}", unit="run") as bar:
            for number, batch in enumerate(bar):
                spans: list[Span] = []
                ran = plugin.messages.run(batch, True, held_out[number :: len(runs)], spans.append)
                validated += ran.of(training=False)
                bar.set_postfix(loss=f"{watch(ran, spans):.4f}")
                if epoch == 1 and number == 0:
                    (folder / "messages.svg").write_text(gantt(_middle(spans)), encoding="utf-8")
        plugin.messages.end_epoch()
        score = plugin.score()
        watch.score(epoch, score)
        print(f"epoch {epoch}: score {score:.4f}{_beside(validated)}")
    print(f"picture and TensorBoard: {folder}")


def _beside(validated: Sequence[Report]) -> str:
    if not validated:
        return ""
    told = f"accuracy {accuracy(validated):.4f}, loss {mean_loss(validated):.4f}"
    return f"; of the same examples while it was trained: {told}"


def mean_loss(reports: Sequence[Report]) -> float:
    return sum(report.loss for report in reports) / sum(report.examples for report in reports)


def train_in_processes(plugin: Any, epochs: int) -> None:
    """Train in processes. The first one prints the progress."""
    dist.init_process_group("gloo")
    with Processes() as processes:
        for epoch in range(1, epochs + 1):
            began = time.perf_counter()
            for batch in plugin.batches():
                plugin.messages.run(batch, training=True, runner=processes.run)
            for node in parameterised_nodes(plugin.messages.graph):
                node.update()
            processes.share(plugin.messages.graph)
            plugin.messages.end_epoch()  # the parameters of all replicas are up to date here
            seconds = time.perf_counter() - began
            if processes.rank == 0:
                print(f"epoch {epoch}: {seconds:.1f} s, score {plugin.score():.4f}", flush=True)
    dist.destroy_process_group()


def gantt(spans: Sequence[Span]) -> str:
    """An SVG chart: a lane for each worker, a colour for each instance; the backward pass is hatched.

    As in Gaunt et al. 2017, Figure 1.
    """
    start = min(span.began for span in spans)
    workers = 1 + max(span.worker for span in spans)
    instances = list(dict.fromkeys(span.instance for span in sorted(spans, key=lambda span: span.began)))
    figure = Figure(figsize=(1.6 * WIDTH, 0.9 + 0.7 * workers), layout="constrained")
    axes = figure.add_subplot()
    for worker in range(workers):
        for number, instance in enumerate(instances):
            for forward in (True, False):
                of_worker = [
                    (1e3 * (span.began - start), 1e3 * (span.ended - span.began))
                    for span in spans
                    if (span.worker, span.instance, span.forward) == (worker, instance, forward)
                ]
                axes.broken_barh(
                    of_worker,
                    (worker - LANE / 2, LANE),
                    facecolor=COLOURS[number % len(COLOURS)],
                    edgecolor="white",
                    linewidth=0.3,
                    hatch="" if forward else BACKWARD,
                )
    axes.set_yticks(range(workers), [f"worker {worker + 1}" for worker in range(workers)])
    axes.invert_yaxis()
    axes.set_xlabel("milliseconds")
    passes = [
        Patch(facecolor="0.7", label="forward"),
        Patch(facecolor="0.7", hatch=BACKWARD, label="backward"),
    ]
    figure.legend(handles=passes, fontsize=LABEL_SIZE, loc="outside lower center", ncols=2)
    return svg(figure)


def _middle(spans: Sequence[Span]) -> list[Span]:
    in_order = sorted(spans, key=lambda span: span.began)
    start = max(0, (len(spans) - SHOWN) // 2)
    return in_order[start : start + SHOWN]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("config", type=Path)
    arguments.add_argument("experiment")
    arguments.add_argument("--method", choices=ACTIVE, default="active-4")
    arguments.add_argument("--batch-size", type=int, default=100)
    arguments.add_argument(
        "--workers",
        type=int,
        default=2,
        help="worker threads; ignored with torchrun, where each process is a worker",
    )
    arguments.add_argument("--epochs", type=int, default=1)
    arguments.add_argument(
        "--validate", action="store_true", help="run what is held out while the graph trains, too; in threads"
    )
    arguments.add_argument("--folder", type=Path, default=Path("runs/messages"), help="output folder")
    given = arguments.parse_args()
    tune_process()
    in_processes = dist.is_torchelastic_launched()
    workers = int(os.environ["WORLD_SIZE"]) if in_processes else given.workers
    try:
        config = read_settings(given.config, SpeedConfig)
        plugin = prepared(config, given.experiment, given.method, given.batch_size, workers)
        if given.validate and (in_processes or not isinstance(plugin, BatchMessagePlugin)):
            raise ValueError("--validate: only with threads, and plugins whose messages are batches")
    except ValueError as error:
        arguments.error(str(error))
    if in_processes:
        train_in_processes(plugin, given.epochs)
    else:
        given.folder.mkdir(parents=True, exist_ok=True)
        train(plugin, given.epochs, given.folder, given.validate)


if __name__ == "__main__":
    main()
