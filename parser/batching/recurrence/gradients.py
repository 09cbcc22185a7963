"""Gradients of weights, added to `grad` in tensors that are kept from chunk to chunk."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from parser.batching.product import add_transposed_product, write_transposed_product


class Gradients:
    """A parameter without `grad` gets the kept tensor: whoever needs it longer takes a copy."""

    def __init__(self) -> None:
        self._kept: dict[nn.Parameter, Tensor] = {}

    def add_products(self, parameter: nn.Parameter, left: Tensor, right: Tensor) -> None:
        """left.T @ right; left: [rows, m], right: [rows, n]."""
        if parameter.grad is None:
            write_transposed_product(self._begin(parameter), left, right)
        else:
            add_transposed_product(parameter.grad, left, right)

    def add_sums(self, parameter: nn.Parameter, rows: Tensor) -> None:
        """rows: [rows, size]"""
        if parameter.grad is None:
            torch.sum(rows, 0, out=self._begin(parameter))
        else:
            parameter.grad += rows.sum(0)

    def add_elements(self, parameter: nn.Parameter, left: Tensor, right: Tensor) -> None:
        """The sums of the products of elements; left, right: [rows, size]."""
        self.add_sums(parameter, left * right)

    def add_rows(self, parameter: nn.Parameter, numbers: Tensor, rows: Tensor) -> None:
        """rows: [rows, size], of the entries of a table that are numbered."""
        # Copies, for the next chunk is written over both.
        kept = (numbers[None].clone(), rows.clone())
        gradient = torch.sparse_coo_tensor(*kept, parameter.shape, check_invariants=False)
        parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient

    def _begin(self, parameter: nn.Parameter) -> Tensor:
        if parameter not in self._kept:
            self._kept[parameter] = torch.empty_like(parameter)
        parameter.grad = self._kept[parameter]
        return parameter.grad
