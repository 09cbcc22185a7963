"""Training runs in a stage's process, without the files of a run."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import torch

from gpu_visit.device import Visited, visited_device
from parser.batching.functional import computing_in
from parser.config.data_folder import data_path
from parser.evaluation.evaluate import evaluate
from parser.models.network_model import NetworkModel
from parser.training import data
from parser.training.checkpoint import TrainingState
from parser.training.config import Config, read_config
from parser.training.data import TrainingData
from parser.training.epoch import epoch_metrics, train_epoch
from parser.training.prepared import cache_folder
from parser.training.run import new_training
from parser.treebank.conllu import stream_sentences

CONFIG = Path("configs/ding-koehn-2019-ewt.yaml")
EWT = "ud/UD_English-EWT/en_ewt-ud-{}.conllu"
GRAPHS = "training.cuda_graphs={}"
REHEARSED_SENTENCES, REHEARSED_WORDS = 24, 8
REHEARSED = (
    "parser.network.word_size=8",
    "parser.network.token_size=12",
    "parser.network.hidden_size=16",
    "parser.network.transition_size=8",
)


@contextmanager
def config_maker(rehearse: bool) -> Iterator[Callable[..., Config]]:
    """Yields a function that returns the config of Ding & Koehn's parser with changes like those of `--set`.

    In a rehearsal it is a small network, for few sentences.
    """
    with few_sentences(rehearse) as parts:
        few = [f"treebank.{part}={path}" for part, path in parts.items()]
        small = [*few, *REHEARSED] if rehearse else []
        yield lambda *changes: read_config(CONFIG, [*small, *changes])


@contextmanager
def few_sentences(rehearse: bool) -> Iterator[dict[str, Path]]:
    """Yields files with a few short sentences, by part of the treebank; none if this is no rehearsal.

    The treebank is English EWT, or without data the one that ships with the project.
    """
    with TemporaryDirectory(prefix="visit-") as folder:
        parts = {part: Path(folder) / f"{part}.conllu" for part in ("train", "dev", "test") if rehearse}
        for part, path in parts.items():
            whole = f"data/quickstart/{part}.conllu"
            if os.environ.get("PARSER_DATA"):
                whole = data_path("${PARSER_DATA}/" + EWT.format(part))
            short = (each for each in stream_sentences(whole) if len(each) <= REHEARSED_WORDS)
            texts = ("".join(each.lines).rstrip("\n") for each in islice(short, REHEARSED_SENTENCES))
            path.write_text("\n\n".join([*texts, ""]), encoding="utf-8")
        yield parts


class Sized(NamedTuple):
    """A batch size to measure."""

    visited: Visited
    rehearse: bool
    size: int
    config: Config
    """With this batch size."""


def batch_sizes(description: str | None, graphs: bool = True) -> Iterator[Sized]:
    """The batch sizes that the command line of a stage names; in a rehearsal a small one.

    graphs: whether the config has CUDA graphs.
    """
    options = argparse.ArgumentParser(description=description, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("batch_sizes", type=int, nargs="+")
    options.add_argument("--rehearse", action="store_true")
    given = options.parse_args()
    with visited_device(given.rehearse) as visited, config_maker(given.rehearse) as config_of:
        for size in [8] if given.rehearse else given.batch_sizes:
            config = config_of(f"training.batch_size={size}", GRAPHS.format(str(graphs).lower()))
            yield Sized(visited, given.rehearse, size, config)


@dataclass(frozen=True)
class Run:
    config: Config
    model: NetworkModel
    data: TrainingData
    training: TrainingState

    @classmethod
    def begin(cls, config: Config, device: torch.device, dtype: torch.dtype = torch.float32) -> Run:
        torch.manual_seed(config.training.seed)
        model, training_data = data.load(config, device, cache_folder())
        model.network.to(dtype)
        return cls(config, model, training_data, new_training(model, training_data, config))

    @classmethod
    def begin_with_graphs(cls, config: Config, device: torch.device) -> Run:
        """A run with CUDA graphs, nearly all of which have been captured."""
        run = cls.begin(config, device)
        for _ in range(2):  # the first batch of a shape has no graph
            run.epoch()
        return run

    def steps(self) -> Iterator[None]:
        """Train an epoch; yields after each step. `end_epoch` has to follow."""
        with computing_in(self.config.training.precision, self.model.device):
            for _ in train_epoch(self.data, self.config.training, self.training):
                yield

    def end_epoch(self) -> dict[str, float]:
        """Returns the metrics of the epoch, and goes on to the next one."""
        progress = self.training.progress
        metrics = epoch_metrics(self.training, self.config.training, self.data)
        progress.epoch, progress.batches, progress.seconds = progress.epoch + 1, 0, 0.0
        return metrics

    def many_steps(self) -> Iterator[None]:
        """Like `steps`, epoch after epoch."""
        while True:
            yield from self.steps()
            self.end_epoch()

    def epoch(self) -> dict[str, float]:
        """Train an epoch; returns its metrics."""
        for _ in self.steps():
            pass
        return self.end_epoch()

    def dev_las(self) -> float:
        """LAS on the dev set in percent."""
        return evaluate(self.model, self.data.dev_sentences).percent("las")
