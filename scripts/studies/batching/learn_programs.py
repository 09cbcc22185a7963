"""Train a program executor on CLEVR's questions, and print its validation accuracy by kind of question.

The baseline is the most frequent answer of each kind. Every batching method learns the same. Training uses
lessons, which combine questions about an image with questions about their intermediate results; validation
uses the questions of the file.

python scripts/studies/batching/learn_programs.py data/clevr --methods levels none --epochs 60 --rows \\
    rows.jsonl
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

from parser.commands.shared_arguments import positive
from parser.config.data_folder import data_path
from parser.speed.measuring.cell_process import synchronise
from parser.speed.tasks.operation_training import in_batches
from parser.speed.tasks.plugin import Mode, Setup
from parser.speed.tasks.programs.answers import make_lesson
from parser.speed.tasks.programs.examples import ProgramExample, ProgramExecutorSettings, prepare_lesson
from parser.speed.tasks.programs.network import BY_LEVELS
from parser.speed.tasks.programs.program_executor_plugin import ProgramExecutorPlugin
from parser.speed.tasks.programs.questions import Question, Scene, read_scenes
from parser.system.device_choice import choose_device
from parser.system.provenance import append_stamped
from parser.system.pytorch import tune_process

METHODS = ProgramExecutorPlugin.methods["train"]
IMAGES = 8
"""The number of images in a batch of lessons."""
QUESTIONS = 3
"""The number of questions in a lesson."""
VALIDATED = 64
"""The batch size in validation."""
SIZES = {"feature_channels": 32, "channels": 32, "projected": 64, "hidden": 128}
RATE, DECAY_PART = 1e-3, 3
"""The learning rate, and the share of epochs (one third) at the end over which it decays linearly to zero."""


class Accuracy(NamedTuple):
    right: int
    questions: int

    def __str__(self) -> str:
        return f"{self.right / self.questions:7.2%}"


class Lessons:
    """Lessons that combine different questions in every epoch, the same ones for every method."""

    def __init__(self, questions: Sequence[Question], scenes: Mapping[int, Scene]):
        self._of_image: dict[int, list[Question]] = defaultdict(list)
        for question in questions:
            self._of_image[question.image].append(question)
        self._scenes = scenes

    def epoch(self, number: int) -> list[list[ProgramExample]]:
        """Batches of lessons, one about each image."""
        draw = random.Random(number)
        images = list(self._of_image)
        draw.shuffle(images)
        return in_batches([self._lesson(image, draw) for image in images], IMAGES)

    def _lesson(self, image: int, draw: random.Random) -> ProgramExample:
        questions = self._of_image[image]
        chosen = draw.sample(questions, min(QUESTIONS, len(questions)))
        return prepare_lesson(make_lesson(chosen, self._scenes[image], draw))


def rate(epoch: int, epochs: int) -> float:
    """The learning rate of an epoch, counted from 1."""
    return RATE * min(1.0, DECAY_PART * (epochs + 1 - epoch) / (epochs + DECAY_PART))


def learn(plugin: ProgramExecutorPlugin, lessons: Lessons, numbers: range, epochs: int, method: str) -> float:
    """Train in the epochs of these numbers, out of `epochs`. Returns the training time in seconds."""
    took = 0.0
    for epoch in numbers:
        batches = lessons.epoch(epoch)
        plugin.training.change_rate(rate(epoch, epochs))
        began = time.perf_counter()
        for batch in batches:
            plugin.run(batch)
        synchronise(plugin.setup.device)
        seconds = time.perf_counter() - began  # without making the lessons
        speed = sum(len(example.answers) for batch in batches for example in batch) / seconds
        took += seconds
        print(f"{method:>8}  epoch {epoch:3}  {seconds:6.1f} s  {speed:,.0f} answers/s", flush=True)
    return took


def accuracy(validation: ProgramExecutorPlugin) -> dict[str, Accuracy]:
    """The accuracy on each kind of question."""
    counts: dict[str, list[bool]] = defaultdict(list)
    both = zip(validation.questions, validation.examples, strict=True)
    for batch in in_batches(list(both), VALIDATED):
        predicted = validation.scores([example for _, example in batch]).argmax(1).tolist()
        for (question, example), answer in zip(batch, predicted, strict=True):
            counts[question.kind].append((answer,) == example.answers)
    return {kind: Accuracy(sum(right), len(right)) for kind, right in counts.items()}


def majority(train: Sequence[Question], validation: Sequence[Question]) -> dict[str, Accuracy]:
    """The accuracy of the most frequent training answer of each kind of question."""
    answers: dict[str, Counter[str]] = defaultdict(Counter)
    for question in train:
        answers[question.kind][question.answer] += 1
    best = {kind: max(counted, key=counted.__getitem__) for kind, counted in answers.items()}
    right = Counter(q.kind for q in validation if q.answer == best.get(q.kind))
    return {kind: Accuracy(right[kind], count) for kind, count in Counter(q.kind for q in validation).items()}


def table(accuracies: Mapping[str, Accuracy], guessed: Mapping[str, Accuracy]) -> None:
    for kind, of_kind in sorted(accuracies.items()):
        print(f"  {kind:16} {of_kind}  majority {guessed[kind]}  of {of_kind.questions} questions")
    print(f"  {'all':16} {total(accuracies)}  majority {total(guessed)}", flush=True)


def total(of_kinds: Mapping[str, Accuracy]) -> Accuracy:
    return Accuracy(*map(sum, zip(*of_kinds.values(), strict=True)))


def prepared(folder: Path, part: str, method: str, sizes: Mapping[str, Any]) -> ProgramExecutorPlugin:
    """A prepared plugin. part: train or val."""
    questions, scenes = (_file(folder, part, what) for what in ("questions", "scenes"))
    settings = ProgramExecutorSettings(questions=questions, scenes=scenes, **sizes)
    plugin = ProgramExecutorPlugin()
    mode: Mode = "train" if part == "train" else "infer"
    plugin.prepare(
        Setup(settings, method, mode, 1, torch.device(choose_device("auto")), 1, lambda _: nullcontext())
    )
    return plugin


def _file(folder: Path, part: str, what: str) -> str:
    """The path of a file of CLEVR. Raises ValueError if there is none."""
    for path in sorted(folder.glob(f"CLEVR_{part}_{what}*.json")):
        return str(path)
    raise ValueError(f"{folder}: no CLEVR_{part}_{what}*.json")


def keep(path: Path, of_run: Mapping[str, Any], **accuracies: Mapping[str, Accuracy]) -> None:
    """Append a validation to a file of rows. found: accuracies by kind of question, kept as percentages."""
    scores = {
        name: {
            kind: 100 * of_kind.right / of_kind.questions
            for kind, of_kind in {**kinds, "all": total(kinds)}.items()
        }
        for name, kinds in accuracies.items()
    }
    append_stamped(path, {**of_run, **scores, "sizes": SIZES})


def compare(
    folder: Path, methods: Sequence[str], epochs: int, validate_every: int, rows: Path | None = None
) -> None:
    """Train and validate by each method. rows: a file to which a line is added for each validation.

    Raises ValueError for missing or broken files.
    """
    validation = prepared(folder, "val", BY_LEVELS, SIZES)
    scenes = read_scenes(Path(data_path(_file(folder, "train", "scenes"))))
    for method in methods:
        plugin = prepared(folder, "train", method, SIZES)
        lessons = Lessons(plugin.questions, scenes)
        guessed = majority(plugin.questions, validation.questions)
        seconds = 0.0
        for first in range(1, epochs + 1, validate_every):
            numbers = range(first, min(first + validate_every, epochs + 1))
            seconds += learn(plugin, lessons, numbers, epochs, method)
            validation.executor.load_state_dict(plugin.executor.state_dict())
            accuracies = accuracy(validation)
            table(accuracies, guessed)
            if rows:
                of_run = {"method": method, "epoch": numbers[-1], "epochs": epochs, "seconds": seconds}
                keep(rows, of_run, accuracy=accuracies, majority=guessed)


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("folder", type=Path, help="folder with CLEVR_{train,val}_{questions,scenes}*.json")
    arguments.add_argument("--methods", nargs="+", choices=METHODS, default=["levels", "none"])
    arguments.add_argument(
        "--epochs", type=positive, default=60, help="epochs, each with one lesson per image"
    )
    arguments.add_argument("--validate-every", type=positive, default=10, help="epochs between validations")
    arguments.add_argument("--rows", type=Path, help="JSON Lines file to which each validation is appended")
    given = arguments.parse_args()
    torch.set_num_threads(1)
    tune_process()
    try:
        compare(given.folder, given.methods, given.epochs, given.validate_every, given.rows)
    except ValueError as error:
        arguments.error(str(error))


if __name__ == "__main__":
    main()
