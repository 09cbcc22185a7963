"""Operations with parameters of their own, and whole modules as one operation."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import torch
from torch import Tensor, nn

from parser.batching.operations.operation import Batch, Gradients, Operation, add_gradient, joined
from parser.batching.product import times_transposed, transposed_times


class Lookup(Operation):
    """A row of a table."""

    has_index = True
    kept = 2

    def __init__(self, table: Tensor):
        """table: [entries, width], a parameter or not."""
        self.table = table
        self.outputs = (table.shape[1],)

    def signature(self) -> Hashable:
        return type(self), id(self.table)

    def forward(self, batch: Batch) -> None:
        assert batch.index is not None
        torch.index_select(self.table, 0, batch.index, out=batch.outputs[0])

    def backward(self, batch: Batch, gradients: Sequence[Tensor]) -> Gradients:
        assert batch.index is not None
        return Gradients((), (gradients[0], batch.index))

    def accumulate(self, batches: Sequence[tuple[Tensor, ...]]) -> None:
        if not self.table.requires_grad:
            return
        gradient, rows = joined(batches)
        if self.table.grad is None:
            self.table.grad = torch.zeros_like(self.table)
        self.table.grad.index_add_(0, rows, gradient)


class Linear(Operation):
    """weight @ x + bias, where x may be several values of equal width, one after the other."""

    is_product = True
    kept = 2

    def __init__(self, weight: Tensor, bias: Tensor | None = None):
        """weight: [out, in]; bias: [out]."""
        self.weight, self.bias = weight, bias
        self.outputs = (weight.shape[0],)

    def signature(self) -> Hashable:
        return type(self), id(self.weight), id(self.bias)

    def packs(self, arguments: int) -> tuple[tuple[int, ...], ...]:
        return (tuple(range(arguments)),)

    def forward(self, batch: Batch) -> None:
        batch.outputs[0].copy_(times_transposed(batch.inputs[0], self.weight, self.bias))

    def backward(self, batch: Batch, gradients: Sequence[Tensor]) -> Gradients:
        inputs = times_transposed(gradients[0], self.weight.T)
        return Gradients((inputs,), (gradients[0], batch.inputs[0]))

    def accumulate(self, batches: Sequence[tuple[Tensor, ...]]) -> None:
        gradient, inputs = joined(batches)
        add_gradient(self.weight, transposed_times(gradient, inputs))
        if self.bias is not None:
            add_gradient(self.bias, gradient.sum(0))


class Module(Operation):
    """Any module from rows to rows as one operation, differentiated by torch.

    It must treat each row by itself, and be given the widths of its arguments and of what it returns.
    """

    is_product = True

    def __init__(self, module: nn.Module, widths: tuple[int, ...], outputs: tuple[int, ...]):
        self.module, self.widths, self.outputs = module, widths, outputs
        self.training = module.training

    def signature(self) -> Hashable:
        return type(self), id(self.module), self.widths, self.outputs, self.training

    def forward(self, batch: Batch) -> None:
        # Copies: torch would take other batches' writing into the same block for a change of these rows.
        inputs = [value.clone().requires_grad_() for value in batch.inputs]
        with torch.enable_grad():
            results = self.module(*inputs)
        results = (results,) if isinstance(results, Tensor) else tuple(results)
        for result, output in zip(results, batch.outputs, strict=True):
            output.copy_(result.detach())
        batch.saved = inputs, results

    def backward(self, batch: Batch, gradients: Sequence[Tensor]) -> Gradients:
        inputs, results = batch.saved
        torch.autograd.backward(results, list(gradients))  # adds to the parameters' gradients at once
        return Gradients([value.grad for value in inputs])
