"""Operations whose time is reported as a phase of its own."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager

from torch import Tensor

from parser.batching.operations.operation import Operation, OperationBatch, OperationGradients
from parser.plugins import CELLS, CELLS_BACKWARD


class Timed(Operation):
    """Wraps an operation, and reports its computation as a phase."""

    def __init__(self, operation: Operation, phase: Callable[[str], AbstractContextManager[object]]):
        self._operation, self._phase = operation, phase
        self.outputs, self.kept, self.columns = operation.outputs, operation.kept, operation.columns
        self.has_index, self.indices = operation.has_index, operation.indices
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

    def accumulate(self, batches: Sequence[tuple[Tensor, ...]]) -> None:
        with self._phase(CELLS_BACKWARD):
            self._operation.accumulate(batches)
