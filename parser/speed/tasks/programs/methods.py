"""The methods that batch the modules of programs: in a graph, as a static structure, and by slices.

Each is called with the setup and the executor, and returns `ModuleCalls`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

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
from parser.speed.tasks.plugin import CELLS, CELLS_BACKWARD, Mode, Setup, method, methods_of
from parser.speed.tasks.programs.network import (
    BY_LEVELS,
    ProgramCalls,
    ProgramExecutor,
    RecordedExecutor,
    number_calls,
    results_by_slices,
    rows,
)

TASK = "program_executor"
METHODS = methods_of(TASK)
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
