"""Programs of neural modules on CLEVR's questions (Suarez & Zhu 2017, section 4.1; Johnson et al. 2017).

The stem and the classifier take a whole batch at once in every method, as in the authors' code. Methods
differ in the batching of modules. `levels` batches calls of one module with equal distance from the root, the
paper's improved sort; `columns` those of equal position in their programs, its standard sort. `sliced` runs
the batches of `levels` with concatenation and slicing, as the authors' code does.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from parser.batching.device import to_device
from parser.batching.levels import Integers
from parser.batching.operations.computation import Computation
from parser.batching.operations.layout import Step
from parser.batching.operations.operation import (
    Operation,
    OperationBatch,
    OperationGradients,
    ParameterGradients,
)
from parser.batching.operations.operation_graph import GRAPH_METHODS, Graph
from parser.batching.operations.static_computation import StaticComputation
from parser.config.data_folder import data_path
from parser.speed.tasks.operation_training import (
    OPERATION_TITLES,
    Forward,
    OperationTraining,
    in_batches,
    missing_file,
    shuffled,
)
from parser.speed.tasks.plugin import CELLS, CELLS_BACKWARD, Methods, Plugin, Setup, Work
from parser.speed.tasks.programs.examples import (
    ProgramExample,
    ProgramExecutorSettings,
    executor_sizes,
    load_questions,
    prepare_question,
)
from parser.speed.tasks.programs.image_blocks import in_device_format, rows
from parser.speed.tasks.programs.program_executor import (
    BY_LEVELS,
    LABELLINGS,
    ExecutorSizes,
    ProgramCalls,
    ProgramExecutor,
    RecordedExecutor,
    number_calls,
    results_by_slices,
)


class Timed(Operation):
    """Wraps an operation, and reports its computation as a phase."""

    def __init__(self, operation: Operation, phase: Callable[[str], AbstractContextManager[object]]):
        self._operation, self._phase = operation, phase
        self.parameters, self.keeps_rows = operation.parameters, operation.keeps_rows
        self.outputs, self.kept, self.columns = operation.outputs, operation.kept, operation.columns
        self.has_index, self.index_bound = operation.has_index, operation.index_bound
        self.is_product, self.only_gathers = operation.is_product, operation.only_gathers

    def signature(self) -> Hashable:
        return type(self), self._operation.signature()

    def packs(self, arguments: int) -> tuple[tuple[int, ...], ...]:
        return self._operation.packs(arguments)

    def forward(self, batch: OperationBatch) -> None:
        with self._phase(CELLS):
            self._operation.forward(batch)

    def backward(self, batch: OperationBatch, gradients: Sequence[Tensor]) -> OperationGradients:
        with self._phase(CELLS_BACKWARD):
            return self._operation.backward(batch, gradients)

    def accumulate(self, batches: Sequence[tuple[Tensor, ...]], gradients: ParameterGradients) -> None:
        with self._phase(CELLS_BACKWARD):
            self._operation.accumulate(batches, gradients)


class ProgramExecutorPlugin:
    name = "program_executor"
    paper = "Suarez & Zhu 2017, Figure 2 (CLEVR programs)"
    methods: ClassVar[Methods] = {
        "train": (*GRAPH_METHODS, *LABELLINGS, "sliced"),
        "infer": (*GRAPH_METHODS, *LABELLINGS),
    }
    method_titles: ClassVar[dict[str, str]] = {
        **{method: OPERATION_TITLES[method] for method in ("depth", "agenda")},
        "columns": "by place in the program",
        "levels": "level by level",
        "sliced": "level by level, rows cut by slices",
    }
    example_name: ClassVar[str] = "questions"
    Settings = ProgramExecutorSettings

    def skip(self, setup: Setup[ProgramExecutorSettings]) -> str | None:
        settings = setup.settings
        given = (settings.questions, settings.scenes, settings.features)
        return next((reason for path in given if path and (reason := missing_file(data_path(path)))), None)

    def prepare(self, setup: Setup[ProgramExecutorSettings]) -> None:
        self.setup = setup
        settings = setup.settings
        questions, self._images = load_questions(settings, setup.seed)
        self.questions = questions[: settings.examples]
        self.examples = [prepare_question(question) for question in self.questions]
        torch.manual_seed(setup.seed)
        self.executor = ProgramExecutor(executor_sizes(settings)).arranged_for(setup.device)
        self._recorded = RecordedExecutor(self.executor, partial(Timed, phase=setup.phase))
        forward = self._by_slices if setup.method == "sliced" else self._in_graph
        self.training = OperationTraining(setup, self.executor, forward, settings.learning_rate)

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

    def _in_graph(self, batch: Sequence[ProgramExample]) -> Forward:
        features, computation, values = self._execute(batch)
        with self.setup.phase("forward"):
            with torch.no_grad():  # our own backward pass below takes their gradient
                results = computation.rows(values, features.shape[1])
            results.requires_grad_()
            loss = self._loss(results, batch)

        def backward() -> None:
            loss.backward()
            (d_features,) = computation.backward(values, results.grad)
            features.backward(d_features)

        return Forward(loss, backward)

    def _by_slices(self, batch: Sequence[ProgramExample]) -> Forward:
        phase = self.setup.phase
        with phase("data"):
            images = self._images_of(batch)
        with phase("scheduling"):
            numbered = number_calls([example.calls for example in batch], BY_LEVELS)
        with phase("forward"):
            results = results_by_slices(self.executor, self.executor.stem(images), numbered)
            loss = self._loss(results, batch)
        return Forward(loss, loss.backward)

    @torch.no_grad()
    def scores(self, batch: Sequence[ProgramExample]) -> Tensor:
        """[results, answers]"""
        features, computation, values = self._execute(batch)
        with self.setup.phase("forward"):
            return self.executor.scores(computation.rows(values, features.shape[1]))

    def _execute(self, batch: Sequence[ProgramExample]) -> tuple[Tensor, Computation, Integers]:
        """The stem's features [questions, width], the computation, and the numbers of classified values."""
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
    ) -> tuple[Computation, list[Step], Integers]:
        setup, recorded = self.setup, self._recorded
        device, gradients = setup.device, setup.mode == "train"
        if setup.method in LABELLINGS:
            with setup.phase("scheduling"):
                computation = StaticComputation(device, gradients=gradients)
                computation.add_values(0, features)
                numbered = number_calls(programs, setup.method)
                steps = computation.schedule(recorded.calls(numbered))
                return computation, steps, numbered.results
        with setup.phase("graph"):
            graph = Graph(setup.method, device, gradients=gradients)
            values = recorded.results(graph, graph.add_values(features), programs)
        with setup.phase("scheduling"):
            return graph, graph.schedule(), values

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
        method = self.setup.method
        modules = len(np.unique(np.concatenate([calls.module for calls in programs])))
        levels = 1 + max(int(calls.depth.max(initial=-1)) for calls in programs)
        longest = max(len(calls.module) for calls in programs)
        return {
            "calls of modules": self._calls(programs, BY_LEVELS if method == "sliced" else method),
            "modules x depth": modules * levels,
            "modules x length": modules * longest,
            "calls by agenda": self._calls(programs, "agenda"),
        }

    def _calls(self, programs: Sequence[ProgramCalls], method: str) -> int:
        if method in LABELLINGS:
            return len(number_calls(programs, method).batches())
        nowhere = torch.device("meta")
        graph = Graph(method, nowhere)
        images = graph.add_values(torch.empty(len(programs), self.executor.grid.width, device=nowhere))
        self._recorded.results(graph, images, programs)
        return len(graph.schedule())


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
