"""Programs of neural modules on CLEVR's questions (Suarez & Zhu 2017, section 4.1; Johnson et al. 2017).

The stem and the classifier take a whole batch at once in every method, as in the authors' code; methods
differ in how modules run. `levels` pools calls of one module whose greatest distance from the root is equal,
the paper's improved sort; `columns` those of equal place in their programs, its standard sort; `sliced` runs
the calls of `levels`, but puts rows together and takes them apart as the authors' code does.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor

from parser.batching.levels import Integers, depths
from parser.batching.operations.computation import Computation
from parser.batching.operations.graph import METHODS, Graph
from parser.batching.operations.layout import Step
from parser.batching.operations.patterns import Patterns
from parser.batching.operations.static import StaticComputation
from parser.batching.operations.writer import Value
from parser.batching.transfer import to_device
from parser.benchmarks.operation_training import Forward, OperationTraining, cut, missing, not_too_many
from parser.benchmarks.programs.clevr.features import Features
from parser.benchmarks.programs.clevr.images import Images, PaintedImages, RandomImages
from parser.benchmarks.programs.clevr.lessons import Lesson
from parser.benchmarks.programs.clevr.made import make_questions
from parser.benchmarks.programs.clevr.programs import (
    ANSWERS,
    FUNCTIONS,
    MODULES,
    SCENE,
    Program,
    Question,
    parts,
    read_questions,
)
from parser.benchmarks.programs.clevr.scenes import read_scenes
from parser.benchmarks.programs.image_blocks import arranged, rows
from parser.benchmarks.programs.network import (
    LABELLINGS,
    LEVELS,
    ExecutorSizes,
    ProgramCalls,
    ProgramExecutor,
    RecordedExecutor,
    number_calls,
    results_by_slices,
)
from parser.benchmarks.programs.timed import Timed
from parser.config import data_path
from parser.plugins import Mode, Setup, Work
from parser.settings import Settings

CHECKED = 6
"""Questions on which the methods must agree."""
UNARY = sum(FUNCTIONS[parts(module)[0]].inputs == 1 for module in MODULES)
"""Modules of one image, which are the first of MODULES."""


class MadeQuestions(Settings):
    """Questions about scenes of random things, with right answers."""

    questions: int = Field(64, gt=0)
    scenes: int = Field(16, gt=0)


class ProgramExecutorSettings(Settings):
    """The defaults of sizes are small; the paper's are 1,024, 14, 128, 512 and 1,024."""

    questions: str | None = None
    """In CLEVR's questions.json format; ${PARSER_DATA} stands for the data folder. null: `made`."""
    made: MadeQuestions = MadeQuestions()
    features: str | None = None
    """Image features, in HDF5. null: painted from `scenes`."""
    scenes: str | None = None
    """In CLEVR's scenes.json format. null: those of `made`, or for `questions` random features."""
    feature_channels: int = Field(32, gt=0)
    side: int = Field(14, gt=1)
    channels: int = Field(16, gt=0)
    projected: int = Field(32, gt=0)
    hidden: int = Field(64, gt=0)
    learning_rate: float = Field(1e-4, gt=0)

    @model_validator(mode="after")
    def _one_kind_of_images(self) -> ProgramExecutorSettings:
        for name, path in (("features", self.features), ("scenes", self.scenes)):
            if path and not self.questions:
                raise ValueError(f"{name}: {path} needs questions about it; without, scenes are made, too")
        if self.features and self.scenes:
            raise ValueError("features and scenes: images are read from the one or painted from the other")
        return self


class Example(NamedTuple):
    calls: ProgramCalls
    answers: tuple[int, ...]
    """Of its results."""
    image: int


class ProgramExecutorPlugin:
    name = "program_executor"
    paper = "Suarez & Zhu 2017, Figure 2 (CLEVR programs)"
    methods: ClassVar[dict[Mode, tuple[str, ...]]] = {
        "train": (*METHODS, *LABELLINGS, "sliced"),
        "infer": (*METHODS, *LABELLINGS),
    }
    method_titles: ClassVar[dict[str, str]] = {
        "agenda": "batched on the fly, by agenda",
        "columns": "by place in the program",
        "levels": "level by level",
        "sliced": "level by level, rows cut by slices",
    }
    example_name: ClassVar[str] = "questions"
    Settings = ProgramExecutorSettings

    def skip(self, setup: Setup) -> str | None:
        settings: ProgramExecutorSettings = setup.settings
        given = (settings.questions, settings.scenes, settings.features)
        return next((reason for path in given if path and (reason := missing(data_path(path)))), None)

    def prepare(self, setup: Setup) -> None:
        self.setup = setup
        settings: ProgramExecutorSettings = setup.settings
        self.questions, self._images = load(settings, setup.seed)
        self.examples = [prepare_question(question) for question in self.questions]
        torch.manual_seed(setup.seed)
        self.executor = ProgramExecutor(sizes_of(settings)).arranged_for(setup.device)
        self._recorded = RecordedExecutor(self.executor, partial(Timed, phase=setup.phase))
        self._patterns = Patterns()
        forward = self._by_slices if setup.method == "sliced" else self._in_graph
        self.training = OperationTraining(setup, self.executor, forward, settings.learning_rate)

    def batches(self) -> list[list[Example]]:
        shuffled = list(self.examples)
        random.Random(self.setup.seed).shuffle(shuffled)
        return cut(shuffled, self.setup.batch_size)

    def run(self, batch: Sequence[Example]) -> None:
        if self.setup.mode == "train":
            self.training.step(batch)
        else:
            self.scores(batch)

    def check(self) -> Tensor:
        batches = cut(self.examples[:CHECKED], self.setup.batch_size)
        if self.setup.mode == "train":
            return self.training.loss_and_gradients(batches)
        return torch.cat([self.scores(batch) for batch in batches]).flatten()

    def work(self, batch: Sequence[Example]) -> Work:
        training = self.setup.mode == "train"
        sizes = self.executor.sizes
        return Work(
            sentences=len(batch),
            tokens=max(1, sum(len(example.calls.module) for example in batch)),
            operations=sum(operations(sizes, example.calls, training) for example in batch),
            padding=0.0,
            counts=self._counts([example.calls for example in batch]),
        )

    def _in_graph(self, batch: Sequence[Example]) -> Forward:
        features, computation, values = self._execute(batch)
        with self.setup.phase("forward"):
            results = computation.rows(values, features.shape[1]).requires_grad_()
            loss = self._loss(results, batch)

        def backward() -> None:
            loss.backward()
            (at_features,) = computation.backward(values, results.grad)
            features.backward(at_features)

        return Forward(loss, backward)

    def _by_slices(self, batch: Sequence[Example]) -> Forward:
        phase = self.setup.phase
        with phase("data"):
            images = self._images_of(batch)
        with phase("scheduling"):
            numbered = number_calls([example.calls for example in batch], LEVELS)
        with phase("forward"):
            results = results_by_slices(self.executor, self.executor.stem(images), numbered)
            loss = self._loss(results, batch)
        return Forward(loss, loss.backward)

    @torch.no_grad()
    def scores(self, batch: Sequence[Example]) -> Tensor:
        """[results, answers]"""
        features, computation, values = self._execute(batch)
        with self.setup.phase("forward"):
            return self.executor.scores(computation.rows(values, features.shape[1]))

    def _execute(self, batch: Sequence[Example]) -> tuple[Tensor, Computation, Sequence[Value]]:
        """The stem's features [questions, width], and the values that are asked for."""
        phase = self.setup.phase
        with phase("data"):
            images = self._images_of(batch)
        with phase("forward"):
            features = rows(self.executor.stem(images))
        computation, steps, values = self._scheduled(features.detach(), [example.calls for example in batch])
        with phase("forward"):
            computation.run(steps)
        return features, computation, values

    def _scheduled(
        self, features: Tensor, programs: Sequence[ProgramCalls]
    ) -> tuple[Computation, list[Step], Sequence[Value]]:
        setup, recorded = self.setup, self._recorded
        device, gradients = setup.device, setup.mode == "train"
        if setup.method in LABELLINGS:
            with setup.phase("scheduling"):
                computation = StaticComputation(device, gradients=gradients)
                computation.given(0, features)
                numbered = number_calls(programs, setup.method)
                steps = computation.schedule(recorded.calls(numbered))
                return computation, steps, numbered.results.tolist()
        with setup.phase("graph"):
            self._patterns = not_too_many(self._patterns)
            graph = Graph(setup.method, device, patterns=self._patterns, gradients=gradients)
            values = recorded.results(graph, graph.given(features), programs)
        with setup.phase("scheduling"):
            return graph, graph.schedule(), values

    def _images_of(self, batch: Sequence[Example]) -> Tensor:
        """[questions, channels, side, side]"""
        images = self._images.of([example.image for example in batch])
        return arranged(to_device(images, self.setup.device))

    def _loss(self, results: Tensor, batch: Sequence[Example]) -> Tensor:
        answers = torch.tensor([answer for example in batch for answer in example.answers])
        scores = self.executor.scores(results)
        return F.cross_entropy(scores, to_device(answers, scores.device), reduction="sum")

    def _counts(self, programs: Sequence[ProgramCalls]) -> dict[str, float]:
        """Calls of modules, by this method and by others, and the bounds of the paper's section 3."""
        method = self.setup.method
        modules = len(np.unique(np.concatenate([calls.module for calls in programs])))
        levels = 1 + max(int(calls.depth.max(initial=-1)) for calls in programs)
        longest = max(len(calls.module) for calls in programs)
        return {
            "calls of modules": self._calls(programs, LEVELS if method == "sliced" else method),
            "modules x depth": modules * levels,
            "modules x length": modules * longest,
            "calls by agenda": self._calls(programs, "agenda"),
        }

    def _calls(self, programs: Sequence[ProgramCalls], method: str) -> int:
        if method in LABELLINGS:
            return len(number_calls(programs, method).batches())
        nowhere = torch.device("meta")
        graph = Graph(method, nowhere)
        images = graph.given(torch.empty(len(programs), self.executor.grid.width, device=nowhere))
        self._recorded.results(graph, images, programs)
        return len(graph.schedule())


def load(settings: ProgramExecutorSettings, seed: int) -> tuple[list[Question], Images]:
    """Raises ValueError for broken files, and for images that are of another size or not there."""
    channels, side = settings.feature_channels, settings.side
    if settings.questions is None:
        scenes, questions = make_questions(settings.made.questions, settings.made.scenes, seed)
        painted = dict(enumerate(scenes))
    else:
        questions = read_questions(Path(data_path(settings.questions)))
        painted = read_scenes(Path(data_path(settings.scenes))) if settings.scenes else {}
    if settings.features:
        given = Features(Path(data_path(settings.features)))
        if given.shape[1:] != (channels, side, side):
            wanted = f"feature_channels and side ask for {channels} x {side} x {side}"
            raise ValueError(f"{settings.features}: features of {given.shape[1:]}, but {wanted}")
        last = max(question.image for question in questions)
        if last >= given.shape[0]:
            raise ValueError(f"{settings.features}: {given.shape[0]} images, but questions are about {last}")
        return questions, given
    if not painted and not settings.scenes:
        return questions, RandomImages(channels, side, seed)
    absent = {question.image for question in questions} - painted.keys()
    if absent:
        raise ValueError(f"{settings.scenes}: no scene of image {min(absent)}, which questions are about")
    return questions, PaintedImages(painted, channels, side, seed)


def prepare_question(question: Question) -> Example:
    return prepare_lesson(
        Lesson(question.program, (len(question.program) - 1,), (question.answer,), question.image)
    )


def prepare_lesson(lesson: Lesson) -> Example:
    answers = tuple(ANSWERS.index(answer) for answer in lesson.answers)
    return Example(prepare_program(lesson.program, lesson.asked), answers, lesson.image)


def prepare_program(program: Program, asked: Sequence[int]) -> ProgramCalls:
    """asked: the nodes whose results are. Scenes are the image itself, and no calls."""
    value: dict[int, int] = {}  # of each node
    module: list[int] = []
    given: list[list[int]] = []
    for node, (name, inputs) in enumerate(zip(program.modules, program.inputs, strict=True)):
        value[node] = 0 if name == SCENE else len(module) + 1
        if name != SCENE:
            module.append(MODULES.index(name))
            given.append([*(value[other] for other in inputs), -1][:2])
    first, second = np.array(given, np.int64).reshape(-1, 2).T
    results = np.array([value[node] for node in asked], np.int64)
    return ProgramCalls(np.array(module, np.int64), first, second, _depths(first, second), results)


def _depths(first: Integers, second: Integers) -> Integers:
    """Of each call, as `ProgramCalls` has them."""
    user = np.tile(np.arange(len(first)), 2)
    used = np.concatenate([first, second]) - 1
    is_call = used >= 0
    return depths(len(first), used[is_call], user[is_call])


def sizes_of(settings: ProgramExecutorSettings) -> ExecutorSizes:
    return ExecutorSizes(
        features=settings.feature_channels,
        side=settings.side,
        channels=settings.channels,
        projected=settings.projected,
        hidden=settings.hidden,
        unary=UNARY,
        binary=len(MODULES) - UNARY,
        answers=len(ANSWERS),
    )


def operations(sizes: ExecutorSizes, calls: ProgramCalls, training: bool) -> float:
    """Floating-point operations of the products of a program's forward and, in training, backward pass."""
    channels, cells, pooled = sizes.channels, sizes.side**2, (sizes.side // 2) ** 2
    convolution = 9 * channels * channels * cells
    first = 9 * sizes.features * channels * cells
    stem = first + convolution
    unary = int((calls.second < 0).sum())
    modules = (
        len(calls.module) * 2 * convolution + (len(calls.module) - unary) * 2 * channels * channels * cells
    )
    classifier = channels * sizes.projected * cells + sizes.hidden * (
        sizes.projected * pooled + sizes.answers
    )
    forward = 2.0 * (stem + modules + len(calls.results) * classifier)
    # Backward there are two products for each, but nobody asks for the gradient at the image.
    return 3 * forward - 2.0 * first if training else forward


PLUGIN = ProgramExecutorPlugin
