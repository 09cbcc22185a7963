"""How the experts that a batch calls are run: expert by expert, or all by grouped matrix products.

Gradients are computed for the called experts only. `d_x` is the gradient of the loss with respect to x.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from parser.batching.groups import Groups, Runs, grouped_product
from parser.batching.product import write_product
from parser.batching.transfer import to_device


class ExpertWeights(NamedTuple):
    """The weights of experts (linear, ReLU, linear); or of one expert; or their gradients."""

    first: Tensor
    """[experts, inputs, hidden]"""
    first_bias: Tensor
    """[experts, hidden]"""
    second: Tensor
    """[experts, hidden, outputs]"""
    second_bias: Tensor
    """[experts, outputs]"""

    def of(self, expert: int) -> ExpertWeights:
        return ExpertWeights(*(stack[expert] for stack in self))


class Calls(ABC):
    """The calls of experts for a batch, in execution order."""

    def __init__(self, chosen: int, groups: Groups | None):
        """chosen: the number of calls per example; groups: the execution order, None for that of examples."""
        self._chosen, self._groups = chosen, groups

    @abstractmethod
    def __len__(self) -> int:
        """The number of calls, where those that run together count as one."""

    @abstractmethod
    def forward(self, rows: Tensor, weights: ExpertWeights) -> tuple[Tensor, Tensor]:
        """The hidden layer after the ReLU [calls, hidden], and the outputs [calls, outputs].

        rows: [calls, inputs]
        """

    @abstractmethod
    def backward(
        self, rows: Tensor, hidden: Tensor, gradient: Tensor, weights: ExpertWeights, d_rows: Tensor | None
    ) -> tuple[Tensor, ExpertWeights]:
        """The called experts [used] and their gradients; all others are zero.

        rows, hidden: as in `forward`; gradient: [calls, outputs], with respect to the outputs; d_rows:
        [calls, inputs], filled with the gradient with respect to the rows, unless it is None.
        """

    def of_examples(self, examples: Tensor) -> Tensor:
        """[calls, n] Gather the row of `examples` [batch, n] for each call."""
        if self._groups is None:
            return examples.repeat_interleave(self._chosen, 0) if self._chosen > 1 else examples
        return examples.index_select(0, self._groups.order // self._chosen)

    def in_order(self, calls: Tensor) -> Tensor:
        """[calls, n] Rows in the order of examples, permuted to execution order."""
        return calls if self._groups is None else calls.index_select(0, self._groups.order)

    def put_back(self, calls: Tensor) -> Tensor:
        """The inverse of `in_order`."""
        return calls if self._groups is None else calls.index_select(0, self._groups.position)

    def sum_by_example(self, calls: Tensor) -> Tensor:
        """[batch, n] The sum over the calls of each example. calls: [calls, n], in execution order."""
        chosen = self.put_back(calls)
        return chosen.view(-1, self._chosen, calls.shape[1]).sum(1) if self._chosen > 1 else chosen


class CallsByRun(Calls):
    """Runs experts one by one: each expert once if the calls are grouped, else each call by itself."""

    def __init__(self, runs: Runs, chosen: int, groups: Groups | None = None):
        super().__init__(chosen, groups)
        self._runs = runs
        # For a single row, selecting the fastest kernel would take too long.
        self._mm: Callable[..., object] = torch.mm if groups is None else _mm
        self._addmm: Callable[..., object] = torch.addmm if groups is None else _addmm

    def __len__(self) -> int:
        return len(self._runs.modules)

    def forward(self, rows: Tensor, weights: ExpertWeights) -> tuple[Tensor, Tensor]:
        addmm, (modules, sizes) = self._addmm, self._runs
        hidden = rows.new_empty(len(rows), weights.first.shape[2])  # [calls, hidden]
        results = rows.new_empty(len(rows), weights.second.shape[2])  # [calls, outputs]
        experts = {module: weights.of(module) for module in set(modules)}
        parts = (matrix.split(sizes) for matrix in (rows, hidden, results))
        for module, row, middle, result in zip(modules, *parts, strict=True):
            first, first_bias, second, second_bias = experts[module]
            addmm(first_bias, row, first, out=middle)
            middle.relu_()
            addmm(second_bias, middle, second, out=result)
        return hidden, results

    def backward(
        self, rows: Tensor, hidden: Tensor, gradient: Tensor, weights: ExpertWeights, d_rows: Tensor | None
    ) -> tuple[Tensor, ExpertWeights]:
        d_hidden = torch.empty_like(hidden)  # [calls, hidden]
        self._input_gradients(gradient, weights.second, d_hidden)
        d_hidden = torch.ops.aten.threshold_backward(d_hidden, hidden, 0)
        if d_rows is not None:
            self._input_gradients(d_hidden, weights.first, d_rows)
        used = sorted(set(self._runs.modules))
        second = self._weight_gradients(used, hidden, gradient)
        first = self._weight_gradients(used, rows, d_hidden)
        numbers = torch.tensor(used, dtype=torch.int64)
        return to_device(numbers, rows.device), ExpertWeights(*first, *second)

    def _input_gradients(self, gradient: Tensor, stack: Tensor, d_inputs: Tensor) -> None:
        """Fill `d_inputs` [calls, m] from the gradient [calls, n] of a layer. stack: [experts, m, n]"""
        modules, sizes = self._runs
        turned = {module: stack[module].T for module in set(modules)}
        parts = (matrix.split(sizes) for matrix in (gradient, d_inputs))
        for module, above, below in zip(modules, *parts, strict=True):
            self._mm(above, turned[module], out=below)

    def _weight_gradients(self, used: list[int], inputs: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
        """Gradients [used, m, n] and [used, n] of a layer's weights and biases.

        inputs: [calls, m], of the layer; gradient: [calls, n], with respect to its outputs.
        """
        modules, sizes = self._runs
        weights = inputs.new_empty(len(used), inputs.shape[1], gradient.shape[1])  # [used, m, n]
        biases = inputs.new_empty(len(used), gradient.shape[1])  # [used, n]
        targets = dict(zip(used, zip(weights.unbind(), biases.unbind(), strict=True), strict=True))
        ones = inputs.new_ones(len(inputs)).split(sizes)
        parts = (matrix.T.split(sizes, dim=1) for matrix in (inputs, gradient))
        seen: set[int] = set()
        for module, row, d_result, one in zip(modules, *parts, ones, strict=True):
            weight, bias = targets[module]
            beta = 1 if module in seen else 0  # 1: add to the sum over earlier runs of the module
            weight.addmm_(row, d_result.T, beta=beta)
            bias.addmv_(d_result, one, beta=beta)
            seen.add(module)
        return weights, biases


def _mm(left: Tensor, right: Tensor, *, out: Tensor) -> None:
    """As `torch.mm`, by the fastest kernel for several rows."""
    write_product(out, left, right.T)


def _addmm(bias: Tensor, left: Tensor, right: Tensor, *, out: Tensor) -> None:
    """As `torch.addmm`. Adding the bias last, to cached results, is faster than starting with it."""
    _mm(left, right, out=out)
    out.add_(bias)


class GroupedCalls(Calls):
    """Runs all experts by one grouped product per layer, without host synchronisation."""

    _groups: Groups

    def __len__(self) -> int:
        return 1

    def forward(self, rows: Tensor, weights: ExpertWeights) -> tuple[Tensor, Tensor]:
        module, ends = self._groups.module, self._groups.ends
        hidden = grouped_product(rows, weights.first, ends)  # [calls, hidden]
        hidden.add_(weights.first_bias.index_select(0, module)).relu_()
        results = grouped_product(hidden, weights.second, ends)  # [calls, outputs]
        return hidden, results.add_(weights.second_bias.index_select(0, module))

    def backward(
        self, rows: Tensor, hidden: Tensor, gradient: Tensor, weights: ExpertWeights, d_rows: Tensor | None
    ) -> tuple[Tensor, ExpertWeights]:
        """Returns as many experts as there could be called; those that were not called get zero gradients."""
        ends = self._groups.ends
        d_hidden = grouped_product(gradient, weights.second.mT, ends)  # [calls, hidden]
        d_hidden = torch.ops.aten.threshold_backward(d_hidden, hidden, 0)
        if d_rows is not None:
            d_rows.copy_(grouped_product(d_hidden, weights.first.mT, ends))
        used = self._perhaps_used()
        second = self._weight_gradients(used, hidden, gradient)
        first = self._weight_gradients(used, rows, d_hidden)
        return used, ExpertWeights(*first, *second)

    def _perhaps_used(self) -> Tensor:
        """[used] The called experts, filled up to a fixed number with others, and sorted."""
        sizes = self._groups.sizes
        called_first = (sizes == 0).sort(stable=True).indices
        return called_first[: len(self._groups.order)].sort().values

    def _weight_gradients(self, used: Tensor, inputs: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
        """See `CallsByRun._weight_gradients`. used: [used], sorted."""
        # Experts between two of them have no calls, so the groups end at the same positions.
        ends = self._groups.ends.index_select(0, used)
        weights = grouped_product(inputs.T, gradient, ends)  # [used, m, n]
        biases = gradient.new_zeros(len(used), gradient.shape[1])  # [used, n]
        return weights, biases.index_add_(0, torch.searchsorted(used, self._groups.module), gradient)
