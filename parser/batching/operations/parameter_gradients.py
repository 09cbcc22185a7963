"""The gradients of parameters: sums over all batches of a backward pass."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from parser.batching.functional import transposed_times


class ParameterGradients:
    """Sums of gradients. Parameters that need no gradients are left out."""

    def __init__(self) -> None:
        self._sums: dict[Tensor, Tensor] = {}

    def add(self, parameter: Tensor, gradient: Tensor) -> None:
        """Add a gradient, in the parameter's shape. Nobody else must modify it later.

        Raises ValueError for another shape.
        """
        if not parameter.requires_grad:
            return
        if gradient.shape != parameter.shape:
            raise ValueError(
                f"a gradient of shape {list(gradient.shape)} for a parameter of shape {list(parameter.shape)}"
            )
        total = self._sums.get(parameter)
        if total is None:
            self._sums[parameter] = gradient if gradient.is_sparse else gradient.contiguous()
        elif total.is_sparse or gradient.is_sparse:
            self._sums[parameter] = _sum(total, gradient)
        else:
            total += gradient

    def add_product(self, weight: Tensor, gradient: Tensor, inputs: Tensor) -> None:
        """Add gradient.T @ inputs to the gradient of a weight.

        weight: [out, in]; gradient: [rows, out], with respect to the outputs; inputs: [rows, in].
        """
        if weight.requires_grad:
            self.add(weight, transposed_times(gradient, inputs))

    def add_sum(self, bias: Tensor, gradient: Tensor) -> None:
        """Add the sum of rows. bias: [out]; gradient: [rows, out], with respect to the outputs."""
        if bias.requires_grad:
            self.add(bias, gradient.sum(0))

    def add_rows(self, table: Tensor, rows: Tensor, gradient: Tensor, sparse: bool) -> None:
        """Add gradients [rows, width] of table rows. table: [entries, width]; rows: [rows], their numbers."""
        if not table.requires_grad:
            return
        if sparse:
            shape = table.shape
            self.add(table, torch.sparse_coo_tensor(rows[None], gradient, shape, check_invariants=False))
            return
        if table not in self._sums:
            self._sums[table] = torch.zeros_like(table)
        elif self._sums[table].is_sparse:
            self._sums[table] = self._sums[table].to_dense()
        self._sums[table].index_add_(0, rows, gradient)

    def all(self) -> Iterable[Tensor]:
        """Return the parameters with gradients."""
        return self._sums

    def of(self, parameter: Tensor) -> Tensor | None:
        """Return the gradient of a parameter; None if no batch has added any."""
        return self._sums.get(parameter)

    def add_to_parameters(self) -> None:
        """Add all gradients to the parameters' `.grad`."""
        for parameter, gradient in self._sums.items():
            parameter.grad = gradient if parameter.grad is None else _sum(parameter.grad, gradient)


def _sum(first: Tensor, second: Tensor) -> Tensor:
    """Return first + second. PyTorch adds a sparse tensor to a dense one, but not the other way round."""
    return second + first if first.is_sparse else first + second
