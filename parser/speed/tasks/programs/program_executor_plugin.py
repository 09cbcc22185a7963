"""Programs of neural modules on CLEVR's questions (Suarez & Zhu 2017, section 4.1; Johnson et al. 2017).

The stem and the classifier take a whole batch at once in every method, as in the authors' code. Methods
differ in the batching of modules. `levels` batches calls of one module with equal distance from the root, the
paper's improved sort; `columns` those of equal position in their programs, its standard sort. `sliced` runs
the batches of `levels` with concatenation and slicing, as the authors' code does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, ClassVar, NamedTuple

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
from parser.batching.operations.operation_graph import Graph
from parser.batching.operations.static_computation import StaticComputation
from parser.speed.tasks.operation_training import (
    OPERATION_TITLES,
    Forward,
    OperationTraining,
    in_batches,
    missing_file,
    shuffled,
)
from parser.speed.tasks.plugin import (
    CELLS,
    CELLS_BACKWARD,
    Methods,
    Mode,
    Plugin,
    Setup,
    Work,
    method,
    methods_of,
)
from parser.speed.tasks.programs.examples import (
    ProgramExample,
    ProgramExecutorSettings,
    load_questions,
    prepare_question,
)
from parser.speed.tasks.programs.network import (
    BY_LEVELS,
    ExecutorSizes,
    ProgramCalls,
    ProgramExecutor,
    RecordedExecutor,
    in_device_format,
    number_calls,
    results_by_slices,
    rows,
)

TASK = "program_executor"
METHODS = methods_of(TASK)  # called with the setup and the executor, they return `ModuleCalls`
MODES: tuple[Mode, ...] = ("train", "infer")


class ModuleResults(NamedTuple):
    rows: Tensor
    """[results, width]"""
    backward: Callable[[], object]
    """Continues the backward pass of a loss, after its gradient of the rows has been computed."""


class ModuleCalls(ABC):
    """The calls of modules for a batch of programs."""

    def __init__(self, setup: Setup[Any], executor: ProgramExecutor):
        self._setup, self._executor = setup, executor
        self._recorded = RecordedExecutor(executor, partial(Timed, phase=setup.phase))

    @abstractmethod
    def results(self, images: Tensor, programs: Sequence[ProgramCalls]) -> ModuleResults:
        """images: [programs, channels, side, side]"""

    @abstractmethod
    def number(self, programs: Sequence[ProgramCalls]) -> int:
        """The number of calls of modules. Calls that run together count as one."""

    def number_in_graph(self, programs: Sequence[ProgramCalls], batching: str) -> int:
        """Like `number`, in a graph."""
        nowhere = torch.device("meta")
        graph = Graph(batching, nowhere)
        images = graph.add_values(torch.empty(len(programs), self._executor.grid.width, device=nowhere))
        self._recorded.results(graph, images, programs)
        return len(graph.schedule())


class ScheduledCalls(ModuleCalls):
    """Calls that a computation runs step by step, forward and backward."""

    @abstractmethod
    def _schedule(
        self, features: Tensor, programs: Sequence[ProgramCalls]
    ) -> tuple[Computation, list[Step], Integers]:
        """The computation, its steps, and the numbers of the classified values.

        features: [programs, width], of the stem.
        """

    def results(self, images: Tensor, programs: Sequence[ProgramCalls]) -> ModuleResults:
        phase, training = self._setup.phase, self._setup.mode == "train"
        with phase("forward"):
            features = rows(self._executor.stem(images))  # [programs, width]
        computation, steps, values = self._schedule(features.detach(), programs)
        with phase("forward"):
            computation.run(steps)
            with torch.no_grad():  # our own backward pass below takes their gradient
                results = computation.rows(values, features.shape[1])
            results.requires_grad_(training)

        def backward() -> None:
            (d_features,) = computation.backward(values, results.grad)
            features.backward(d_features)

        return ModuleResults(results, backward)


class CallsInGraph(ScheduledCalls):
    def _schedule(
        self, features: Tensor, programs: Sequence[ProgramCalls]
    ) -> tuple[Computation, list[Step], Integers]:
        setup = self._setup
        with setup.phase("graph"):
            graph = Graph(setup.method, setup.device, gradients=setup.mode == "train")
            values = self._recorded.results(graph, graph.add_values(features), programs)
        with setup.phase("scheduling"):
            return graph, graph.schedule(), values

    def number(self, programs: Sequence[ProgramCalls]) -> int:
        return self.number_in_graph(programs, self._setup.method)


class LabelledCalls(ScheduledCalls):
    """Calls of one module with equal labels run together."""

    def __init__(self, labelling: str, setup: Setup[Any], executor: ProgramExecutor):
        """labelling: see `number_calls`."""
        super().__init__(setup, executor)
        self._labelling = labelling

    def _schedule(
        self, features: Tensor, programs: Sequence[ProgramCalls]
    ) -> tuple[Computation, list[Step], Integers]:
        setup = self._setup
        with setup.phase("scheduling"):
            computation = StaticComputation(setup.device, gradients=setup.mode == "train")
            computation.add_values(0, features)
            numbered = number_calls(programs, self._labelling)
            return computation, computation.schedule(self._recorded.calls(numbered)), numbered.results

    def number(self, programs: Sequence[ProgramCalls]) -> int:
        return len(number_calls(programs, self._labelling).batches())


class SlicedCalls(ModuleCalls):
    """The batches of `levels` with concatenation and slicing, as in the authors' code, differentiated by
    autograd.
    """

    def results(self, images: Tensor, programs: Sequence[ProgramCalls]) -> ModuleResults:
        with self._setup.phase("scheduling"):
            numbered = number_calls(programs, BY_LEVELS)
        with self._setup.phase("forward"):
            results = results_by_slices(self._executor, self._executor.stem(images), numbered)
        return ModuleResults(results, lambda: None)

    def number(self, programs: Sequence[ProgramCalls]) -> int:
        return len(number_calls(programs, BY_LEVELS).batches())


method(TASK, "none", "depth", "agenda", modes=MODES)(CallsInGraph)
method(TASK, "columns", modes=MODES, title="by place in the program")(partial(LabelledCalls, "columns"))
method(TASK, BY_LEVELS, modes=MODES, title="level by level")(partial(LabelledCalls, BY_LEVELS))
method(TASK, "sliced", title="level by level, rows cut by slices")(SlicedCalls)


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
    methods: ClassVar[Methods] = METHODS
    method_titles: ClassVar[dict[str, str]] = OPERATION_TITLES
    example_name: ClassVar[str] = "questions"
    Settings = ProgramExecutorSettings

    def skip(self, setup: Setup[ProgramExecutorSettings]) -> str | None:
        settings = setup.settings
        missing = missing_file(settings.questions, settings.scenes, settings.features)
        return missing or METHODS.chosen(setup).skip(setup)

    def prepare(self, setup: Setup[ProgramExecutorSettings]) -> None:
        self.setup = setup
        settings = setup.settings
        questions, self._images = load_questions(settings, setup.seed)
        self.questions = questions[: settings.examples]
        self.examples = [prepare_question(question) for question in self.questions]
        torch.manual_seed(setup.seed)
        self.executor = ProgramExecutor(settings.sizes()).arranged_for(setup.device)
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
        """Counts also the module calls of this and other methods, and the bounds of the paper's section 3."""
        training, sizes = self.setup.mode == "train", self.executor.sizes
        programs = [example.calls for example in batch]
        lengths = [len(calls.module) for calls in programs]
        modules = len(np.unique(np.concatenate([calls.module for calls in programs])))
        levels = 1 + max(int(calls.depth.max(initial=-1)) for calls in programs)
        return Work(
            sentences=len(batch),
            tokens=max(1, sum(lengths)),
            operations=sum(program_operations(sizes, calls, training) for calls in programs),
            padding=0.0,
            counts={
                "calls of modules": self._modules.number(programs),
                "modules x depth": modules * levels,
                "modules x length": modules * max(lengths),
                "calls by agenda": self._modules.number_in_graph(programs, "agenda"),
            },
        )

    def _forward(self, batch: Sequence[ProgramExample]) -> Forward:
        results = self._results(batch)
        with self.setup.phase("forward"):
            scores = self.executor.scores(results.rows)
            answers = torch.tensor([answer for example in batch for answer in example.answers])
            loss = F.cross_entropy(scores, to_device(answers, scores.device), reduction="sum")

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
            images = self._images.of([example.image for example in batch])
            # [questions, channels, side, side]
            images = in_device_format(to_device(images, self.setup.device))
        return self._modules.results(images, [example.calls for example in batch])


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
