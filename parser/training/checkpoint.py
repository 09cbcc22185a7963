"""Checkpoints: everything that a run needs to continue as if it had never been stopped, in one file.

The file contains tensors and JSON, nothing executable. A resumed run gives the same weights as an
uninterrupted one on a CPU, and with `training.deterministic` also on a GPU."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save, save_file
from torch import Tensor

from parser.evaluation.scores import Scores
from parser.evaluation.treebank_scores import TreebankScores
from parser.system.console import shortened
from parser.system.files import nameless_file, readable, replaced_atomically
from parser.training.graphed_gradients import GraphedGradients
from parser.training.optimizer import Schedule
from parser.training.processes import ProcessGroup
from parser.training.training_step import TrainingStep

NETWORK, AVERAGE, OPTIMIZER, TOTALS = "network.", "average.", "optimizer.", "totals"
RANDOM, DEVICE_RANDOM = "random", "random.cuda"
RandomState = Mapping[str, Tensor]
"""The states of a process's random number generators by name."""
OS_ERROR = re.compile(r"os error (\d+)")
"""The number in a message of safetensors, which raises no OSError."""

FORMAT = "1"
"""File format; see docs/model-format.md. It changes when versions could misread each other's files."""


@dataclass
class Progress:
    """The state of a run besides its weights."""

    data: str
    """A hash of the treebanks and the vocabulary, see `Prepared.digest`."""
    epoch: int = 1
    """The current epoch, from 1; after the last epoch, its number plus 1."""
    batches: int = 0
    """The number of finished batches of this epoch."""
    seconds: float = 0.0
    """Training time of the finished batches."""
    sentences_per_second: float = 0.0
    """Speed of the last finished epoch."""
    best: TreebankScores = field(default_factory=TreebankScores)
    best_epoch: int = 0
    metrics_size: int = 0
    """Size in bytes of `metrics.jsonl`."""
    finished: bool = False


@dataclass(frozen=True)
class TrainingState:
    """All state that changes during training."""

    step: TrainingStep
    schedule: Schedule
    totals: Tensor
    """[3] Sums over this epoch: loss, number of transitions, norms of the gradients."""
    progress: Progress
    graphs: GraphedGradients | None = None


def random_state(device: torch.device) -> RandomState:
    state = {RANDOM: torch.get_rng_state()}
    return {**state, DEVICE_RANDOM: torch.cuda.get_rng_state(device)} if device.type == "cuda" else state


def save_checkpoint(path: Path, training: TrainingState, others: Sequence[RandomState] = ()) -> None:
    """Replace the checkpoint. Its content is nowhere in memory: it may take gigabytes.

    others: the random states of the processes with ranks from 1. Raises OSError with the file's name; the
    previous checkpoint is kept in that case.
    """
    tensors, metadata = _content(training, others)
    with replaced_atomically(path) as unfinished:
        try:
            save_file(tensors, unfinished, metadata)
        except SafetensorError as error:
            number = OS_ERROR.search(str(error))
            raise (OSError(int(number[1]), os.strerror(int(number[1]))) if number else error) from None


def checkpoint_content(training: TrainingState) -> bytes:
    """The content of the checkpoint that `save_checkpoint` writes."""
    return save(*_content(training, ()))


def _content(
    training: TrainingState, others: Sequence[RandomState]
) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors of a checkpoint by name, and the rest of it."""
    tensors = {f"{NETWORK}{name}": tensor for name, tensor in training.step.network.state_dict().items()}
    if training.step.average:
        tensors |= {f"{AVERAGE}{name}": tensor for name, tensor in training.step.average.state().items()}
    for number, state in training.step.optimizer.state_dict()["state"].items():
        tensors |= {f"{OPTIMIZER}{number}.{name}": tensor for name, tensor in state.items()}
    tensors |= {TOTALS: training.totals, **random_state(training.totals.device)}
    for rank, state in enumerate(others, 1):
        tensors |= {f"rank-{rank}.{name}": tensor for name, tensor in state.items()}
    best = {treebank: vars(scores) for treebank, scores in training.progress.best.of_treebanks.items()}
    metadata = {
        "format": FORMAT,
        "progress": json.dumps({**vars(training.progress), "best": best}),
        "schedule": json.dumps(training.schedule.state()),
    }
    return {name: tensor.contiguous() for name, tensor in tensors.items()}, metadata


def load_checkpoint(path: Path, training: TrainingState, rank: int = 0) -> None:
    """Restore the state of a run into a fresh `training`. rank: the rank of this process.

    Raises ValueError if the file is broken or belongs to another run.
    """
    try:
        with safe_open(readable(path), "pt") as file:
            metadata: dict[str, Any] = {name: json.loads(text) for name, text in file.metadata().items()}
            tensors: dict[str, Tensor] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        best = {treebank: _scores(told) for treebank, told in metadata["progress"]["best"].items()}
        progress = Progress(**{**metadata["progress"], "best": TreebankScores(best)})
        if progress.data != training.progress.data:
            raise ValueError(
                "the treebanks, the word vectors, the transformer or the teachers have changed since the run "
                "began; train without --resume"
            )
        training.step.network.load_state_dict(_below(NETWORK, tensors))
        if training.step.average:
            training.step.average.load_state(_below(AVERAGE, tensors))
        states: dict[int, dict[str, Tensor]] = {}
        for name, tensor in _below(OPTIMIZER, tensors).items():
            number, _, key = name.partition(".")
            states.setdefault(int(number), {})[key] = tensor
        groups = training.step.optimizer.state_dict()["param_groups"]
        training.step.optimizer.load_state_dict({"state": states, "param_groups": groups})
        training.totals.copy_(tensors[TOTALS])
        _restore_random(tensors, rank, progress, training.totals.device)
        training.schedule.load_state(metadata["schedule"])
    except (SafetensorError, RuntimeError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path}: broken, or not of this run: {error}") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    vars(training.progress).update(vars(progress))


def _scores(told: Mapping[str, Any]) -> Scores:
    """Scores from JSON."""
    counts: dict[str, Any] = {
        name: Counter(each) if isinstance(each, dict) else each for name, each in told.items()
    }
    return Scores(**counts)


def refuse_other_format(path: Path) -> None:
    """Raises ValueError if a checkpoint has another format, or does not name its format."""
    try:
        with safe_open(path, "pt") as file:
            metadata = file.metadata()
    except (SafetensorError, OSError):
        return  # `load_checkpoint` will report what is wrong with it
    number = metadata.get("format") if metadata else FORMAT
    if number != FORMAT:
        named = "a format that it does not name" if number is None else f"format {shortened(number)}"
        raise ValueError(
            f"{path}: has {named}, and this program goes on from format {FORMAT} only: resume with the "
            "version that wrote it, or train without --resume"
        )


def _restore_random(tensors: dict[str, Tensor], rank: int, progress: Progress, device: torch.device) -> None:
    """Restore the random state of this process; a fresh state if fewer processes wrote the file."""
    of_process = _below(f"rank-{rank}.", tensors) if rank else tensors
    if rank and RANDOM not in of_process:
        number = (torch.initial_seed() + rank) * 1_000_003 + progress.epoch
        torch.manual_seed((number * 1_000_003 + progress.batches) % 2**63)
        return
    torch.set_rng_state(of_process[RANDOM])
    if device.type == "cuda" and DEVICE_RANDOM in of_process:
        torch.cuda.set_rng_state(of_process[DEVICE_RANDOM], device)


def _below(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name[len(prefix) :]: tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def refuse_other_data(processes: ProcessGroup, digest: str) -> None:
    """Raises ValueError if the processes have read different files. digest: see `TrainingData.digest`."""
    first, *others = processes.gathered(digest)
    for rank, other in enumerate(others, 1):
        if other != first:
            raise ValueError(
                f"process {rank} has read other treebanks, word vectors, teachers or another transformer "
                "than process 0"
            )


def copy_checkpoint(processes: ProcessGroup, path: Path, training: TrainingState) -> None:
    """Restore the checkpoint of the first process in all others, which may be on other machines."""
    if processes.count == 1:
        return
    content = processes.from_first(path.read_bytes() if processes.is_first else None)
    if not processes.is_first:
        with nameless_file(content) as received:
            load_checkpoint(received, training, processes.rank)
