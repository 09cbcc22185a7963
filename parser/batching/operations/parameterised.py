"""Operations with parameters, and modules as single operations."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from parser.batching.operations.operation import (
    Operation,
    OperationBatch,
    OperationGradients,
    add_product_gradient,
    add_sum_gradient,
    joined,
    leaf,
)
from parser.batching.product import times_transposed, write_product


class Lookup(Operation):
    """A row of an embedding table."""

    has_index = True
    kept = 2

    def __init__(self, table: Tensor, sparse: bool = False):
        """table: [entries, width], trainable or not; sparse: use a sparse gradient."""
        self.table, self.only_gathers = leaf(table), sparse
        self.indices = len(table)
        self.outputs = (table.shape[1],)

    def signature(self) -> Hashable:
        return type(self), id(self.table), self.only_gathers

    def forward(self, batch: OperationBatch) -> None:
        assert batch.index is not None
        torch.index_select(self.table, 0, batch.index, out=batch.outputs[0])

    def backward(self, batch: OperationBatch, gradients: Sequence[Tensor]) -> OperationGradients:
        assert batch.index is not None
        return OperationGradients((), (gradients[0], batch.index))

    def accumulate(self, batches: Sequence[tuple[Tensor, ...]]) -> None:
        if not self.table.requires_grad:
            return
        gradient, rows = joined(batches)
        if self.only_gathers:
            shape = self.table.shape
            found = torch.sparse_coo_tensor(rows[None], gradient, shape, check_invariants=False)
            self.table.grad = found if self.table.grad is None else self.table.grad + found
            return
        if self.table.grad is None:
            self.table.grad = torch.zeros_like(self.table)
        self.table.grad.index_add_(0, rows, gradient)


class Linear(Operation):
    """weight @ x + bias, where x may be the concatenation of several values of equal width."""

    is_product = True
    kept = 2

    def __init__(self, weight: Tensor, bias: Tensor | None = None):
        """weight: [out, in]; bias: [out]."""
        self.weight, self.bias = leaf(weight), None if bias is None else leaf(bias)
        self.outputs = (weight.shape[0],)

    def signature(self) -> Hashable:
        return type(self), id(self.weight), id(self.bias)

    def packs(self, arguments: int) -> tuple[tuple[int, ...], ...]:
        return (tuple(range(arguments)),)

    def forward(self, batch: OperationBatch) -> None:
        write_product(batch.outputs[0], batch.inputs[0], self.weight, self.bias)

    def backward(self, batch: OperationBatch, gradients: Sequence[Tensor]) -> OperationGradients:
        inputs = times_transposed(gradients[0], self.weight.T)
        return OperationGradients((inputs,), (gradients[0], batch.inputs[0]))

    def accumulate(self, batches: Sequence[tuple[Tensor, ...]]) -> None:
        gradient, inputs = joined(batches)
        add_product_gradient(self.weight, gradient, inputs)
        if self.bias is not None:
            add_sum_gradient(self.bias, gradient)


class Module(Operation):
    """Any module from rows to rows as a single operation, differentiated by autograd.

    The module must treat rows independently. It runs in the mode (training or evaluation) that it has when
    the operation is created.
    """

    is_product = True

    def __init__(self, module: nn.Module, outputs: tuple[int, ...]):
        """outputs: the width of each tensor that the module returns."""
        self.module, self.outputs = module, outputs
        self._training = tuple(part.training for part in module.modules())

    def signature(self) -> Hashable:
        return type(self), id(self.module), self.outputs, self._training

    def forward(self, batch: OperationBatch) -> None:
        inputs = [value.detach().requires_grad_() for value in batch.inputs]
        with torch.enable_grad(), self._mode():
            # Clones, because other batches write into the same block, which autograd would report.
            results = self.module(*(value.clone() for value in inputs))
        results = (results,) if isinstance(results, Tensor) else tuple(results)
        widths = tuple(tuple(result.shape) for result in results)
        if widths != tuple((len(output), output.shape[1]) for output in batch.outputs):
            name, rows = type(self.module).__name__, len(batch.outputs[0])
            raise ValueError(f"{name} returned {widths} for {rows} rows, but declared widths {self.outputs}")
        for result, output in zip(results, batch.outputs, strict=True):
            output.copy_(result.detach())
        batch.saved = inputs, results

    def backward(self, batch: OperationBatch, gradients: Sequence[Tensor]) -> OperationGradients:
        inputs, results = batch.saved
        needing = [place for place, result in enumerate(results) if result.requires_grad]
        if needing:
            # Also adds to the parameters' gradients.
            torch.autograd.backward([results[place] for place in needing], [gradients[p] for p in needing])
        return OperationGradients([value.grad for value in inputs])

    @contextmanager
    def _mode(self) -> Iterator[None]:
        parts = list(self.module.modules())
        before = [part.training for part in parts]
        for part, training in zip(parts, self._training, strict=True):
            part.training = training
        try:
            yield
        finally:
            for part, training in zip(parts, before, strict=True):
                part.training = training
