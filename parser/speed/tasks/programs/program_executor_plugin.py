"""Programs of neural modules on CLEVR's questions (Suarez & Zhu 2017, section 4.1; Johnson et al. 2017).

The stem and the classifier take a whole batch at once in every method, as in the authors' code. Methods
differ in the batching of modules. `levels` batches calls of one module with equal distance from the root, the
paper's improved sort; `columns` those of equal position in their programs, its standard sort. `sliced` runs
the batches of `levels` with concatenation and slicing, as the authors' code does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from parser.batching.device import to_device
from parser.config.data_folder import data_path
from parser.speed.tasks.operation_training import (
    OPERATION_TITLES,
    Forward,
    OperationTraining,
    in_batches,
    missing_file,
    shuffled,
)
from parser.speed.tasks.plugin import Methods, Plugin, Setup, Work
from parser.speed.tasks.programs.examples import (
    ProgramExample,
    ProgramExecutorSettings,
    executor_sizes,
    load_questions,
    prepare_question,
)
from parser.speed.tasks.programs.methods import METHODS, ModuleCalls, ModuleResults
from parser.speed.tasks.programs.network import (
    ExecutorSizes,
    ProgramCalls,
    ProgramExecutor,
    in_device_format,
)


class ProgramExecutorPlugin:
    name = "program_executor"
    paper = "Suarez & Zhu 2017, Figure 2 (CLEVR programs)"
    methods: ClassVar[Methods] = METHODS
    method_titles: ClassVar[dict[str, str]] = OPERATION_TITLES
    example_name: ClassVar[str] = "questions"
    Settings = ProgramExecutorSettings

    def skip(self, setup: Setup[ProgramExecutorSettings]) -> str | None:
        settings = setup.settings
        given = (settings.questions, settings.scenes, settings.features)
        missing = (missing_file(data_path(path)) for path in given if path)
        return next(filter(None, missing), None) or METHODS.chosen(setup).skip(setup)

    def prepare(self, setup: Setup[ProgramExecutorSettings]) -> None:
        self.setup = setup
        settings = setup.settings
        questions, self._images = load_questions(settings, setup.seed)
        self.questions = questions[: settings.examples]
        self.examples = [prepare_question(question) for question in self.questions]
        torch.manual_seed(setup.seed)
        self.executor = ProgramExecutor(executor_sizes(settings)).arranged_for(setup.device)
        self._modules: ModuleCalls = METHODS.chosen(setup).make(setup, self.executor)
        self.training = OperationTraining(setup, self.executor, self._forward, settings.learning_rate)

    def batches(self) -> list[list[ProgramExample]]:
        return in_batches(shuffled(self.examples, self.setup.seed), self.setup.batch_size)

    def run(self, batch: Sequence[ProgramExample]) -> None:
        if self.setup.mode == "train":
            self.training.step(batch)
        else:
            self.scores(batch)

    def check(self) -> Tensor:
        batches = in_batches(self.examples[: self.setup.checked], self.setup.batch_size)
        if self.setup.mode == "train":
            return self.training.loss_and_gradients(batches)
        return torch.cat([self.scores(batch) for batch in batches]).flatten()

    def work(self, batch: Sequence[ProgramExample]) -> Work:
        training = self.setup.mode == "train"
        sizes = self.executor.sizes
        return Work(
            sentences=len(batch),
            tokens=max(1, sum(len(example.calls.module) for example in batch)),
            operations=sum(program_operations(sizes, example.calls, training) for example in batch),
            padding=0.0,
            counts=self._counts([example.calls for example in batch]),
        )

    def _forward(self, batch: Sequence[ProgramExample]) -> Forward:
        results = self._results(batch)
        with self.setup.phase("forward"):
            loss = self._loss(results.rows, batch)

        def backward() -> None:
            loss.backward()
            results.backward()

        return Forward(loss, backward)

    @torch.no_grad()
    def scores(self, batch: Sequence[ProgramExample]) -> Tensor:
        """[results, answers]"""
        results = self._results(batch)
        with self.setup.phase("forward"):
            return self.executor.scores(results.rows)

    def _results(self, batch: Sequence[ProgramExample]) -> ModuleResults:
        with self.setup.phase("data"):
            images = self._images_of(batch)
        return self._modules.results(images, [example.calls for example in batch])

    def _images_of(self, batch: Sequence[ProgramExample]) -> Tensor:
        """[questions, channels, side, side]"""
        images = self._images.of([example.image for example in batch])
        return in_device_format(to_device(images, self.setup.device))

    def _loss(self, results: Tensor, batch: Sequence[ProgramExample]) -> Tensor:
        answers = torch.tensor([answer for example in batch for answer in example.answers])
        scores = self.executor.scores(results)
        return F.cross_entropy(scores, to_device(answers, scores.device), reduction="sum")

    def _counts(self, programs: Sequence[ProgramCalls]) -> dict[str, float]:
        """The number of module calls by this and other methods, and the bounds of the paper's section 3."""
        modules = len(np.unique(np.concatenate([calls.module for calls in programs])))
        levels = 1 + max(int(calls.depth.max(initial=-1)) for calls in programs)
        longest = max(len(calls.module) for calls in programs)
        return {
            "calls of modules": self._modules.number(programs),
            "modules x depth": modules * levels,
            "modules x length": modules * longest,
            "calls by agenda": self._modules.number_in_graph(programs, "agenda"),
        }


def program_operations(sizes: ExecutorSizes, calls: ProgramCalls, training: bool) -> float:
    """Floating-point operations of a program's forward and, in training, backward pass."""
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
    # The backward pass needs two products for each forward product, but the images need no gradient.
    return 3 * forward - 2.0 * first if training else forward


PLUGIN: type[Plugin[ProgramExecutorSettings]] = ProgramExecutorPlugin
