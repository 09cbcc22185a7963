"""Train a program executor on CLEVR's questions, and print its accuracy on others, kind by kind.

Beside it, what the most frequent answer of each kind reaches; every batching method learns the same.

python scripts/learn_programs.py data/clevr --methods levels none --epochs 2
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import torch

from parser.datasets.clevr.programs import Question
from parser.machine import choose_device, tune_process
from parser.networks.program_executor import LEVELS
from parser.plugins import Mode, Setup
from parser.plugins.program_executor import ProgramExecutorPlugin, ProgramExecutorSettings

METHODS = ProgramExecutorPlugin.methods["train"]
BATCH = 32
SIZES = {"feature_channels": 32, "channels": 32, "projected": 32, "hidden": 64, "learning_rate": 1e-3}


class Accuracy(NamedTuple):
    right: int
    questions: int

    def __str__(self) -> str:
        return f"{self.right / self.questions:7.2%}"


def learn(plugin: ProgramExecutorPlugin, validation: ProgramExecutorPlugin, epochs: int, method: str) -> None:
    """validation: the same plugin over other questions; it is given the weights that are learned."""
    for epoch in range(1, epochs + 1):
        began = time.perf_counter()
        batches = plugin.batches()
        random.Random(epoch).shuffle(batches)
        for batch in batches:
            plugin.run(batch)
        seconds = time.perf_counter() - began
        validation.executor.load_state_dict(plugin.executor.state_dict())
        found = accuracy(validation)
        total = Accuracy(*map(sum, zip(*found.values(), strict=True)))
        speed = len(plugin.examples) / seconds
        print(f"{method:>8}  epoch {epoch:3}  val accuracy {total}  {speed:,.0f} questions/s", flush=True)
    table(found, majority(plugin.questions, validation.questions))


def accuracy(validation: ProgramExecutorPlugin) -> dict[str, Accuracy]:
    """Of each kind of question."""
    counts: dict[str, list[bool]] = defaultdict(list)
    size = validation.setup.batch_size
    for start in range(0, len(validation.examples), size):
        batch = validation.examples[start : start + size]
        predicted = validation.scores(batch).argmax(1).tolist()
        for question, example, answer in zip(
            validation.questions[start : start + size], batch, predicted, strict=True
        ):
            counts[question.kind].append(answer == example.answer)
    return {kind: Accuracy(sum(right), len(right)) for kind, right in counts.items()}


def majority(train: Sequence[Question], validation: Sequence[Question]) -> dict[str, Accuracy]:
    """Of the answer that is most frequent in training, for each kind of question."""
    answers: dict[str, Counter[str]] = defaultdict(Counter)
    for question in train:
        answers[question.kind][question.answer] += 1
    right = Counter(q.kind for q in validation if q.answer == answers[q.kind].most_common(1)[0][0])
    return {kind: Accuracy(right[kind], count) for kind, count in Counter(q.kind for q in validation).items()}


def table(found: Mapping[str, Accuracy], guessed: Mapping[str, Accuracy]) -> None:
    for kind in sorted(found):
        print(f"  {kind:16} {found[kind]}  majority {guessed[kind]}  of {found[kind].questions} questions")


def prepared(folder: Path, part: str, method: str, sizes: Mapping[str, Any]) -> ProgramExecutorPlugin:
    """part: train, which learns, or val."""
    questions, scenes = (_file(folder, part, what) for what in ("questions", "scenes"))
    settings = ProgramExecutorSettings(questions=questions, scenes=scenes, **sizes)
    plugin = ProgramExecutorPlugin()
    mode: Mode = "train" if part == "train" else "infer"
    device = choose_device("auto")
    plugin.prepare(Setup(settings, method, mode, BATCH, device, 1, lambda _: nullcontext()))
    return plugin


def _file(folder: Path, part: str, what: str) -> str:
    """Raises ValueError if there is none."""
    for path in sorted(folder.glob(f"CLEVR_{part}_{what}*.json")):
        return str(path)
    raise ValueError(f"{folder}: no CLEVR_{part}_{what}*.json")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("folder", type=Path, help="with CLEVR_{train,val}_{questions,scenes}*.json")
    arguments.add_argument("--methods", nargs="+", choices=METHODS, default=["levels", "none"])
    arguments.add_argument("--epochs", type=int, default=1)
    given = arguments.parse_args()
    torch.set_num_threads(1)
    tune_process()
    for method in given.methods:
        train = prepared(given.folder, "train", method, SIZES)
        validation = prepared(given.folder, "val", LEVELS, SIZES)
        learn(train, validation, given.epochs, method)


if __name__ == "__main__":
    main()
