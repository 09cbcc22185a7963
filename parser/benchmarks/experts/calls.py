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
    """Of experts, a linear layer, a ReLU and a linear layer each; or of one, or gradients of these."""

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
    """The calls of experts that a batch asks for, in the order in which they run."""

    def __init__(self, chosen: int, groups: Groups | None):
        """chosen: calls of each example, one after the other unless `groups` orders them."""
        self._chosen, self._groups = chosen, groups

    @abstractmethod
    def __len__(self) -> int:
        """How many there are, those that run together counted as one."""

    @abstractmethod
    def forward(self, rows: Tensor, weights: ExpertWeights) -> tuple[Tensor, Tensor]:
        """Hidden rows after the ReLU [calls, hidden], and results [calls, outputs]; rows: [calls, inputs]."""

    @abstractmethod
    def backward(
        self, rows: Tensor, hidden: Tensor, gradient: Tensor, weights: ExpertWeights, at_rows: Tensor | None
    ) -> tuple[Tensor, ExpertWeights]:
        """Experts [used], each once, and their gradients; all others' are zero.

        rows, hidden: as in `forward`; gradient: [calls, outputs], at the results; at_rows: [calls, inputs],
        to be filled with the gradient there, unless it is None.
        """

    def of_examples(self, examples: Tensor) -> Tensor:
        """[calls, n] Each call's row of `examples` [batch, n]."""
        if self._groups is None:
            return examples.repeat_interleave(self._chosen, 0) if self._chosen > 1 else examples
        return examples.index_select(0, self._groups.order // self._chosen)

    def in_order(self, calls: Tensor) -> Tensor:
        """[calls, n] Rows in the order of the choice, put in that of running."""
        return calls if self._groups is None else calls.index_select(0, self._groups.order)

    def put_back(self, calls: Tensor) -> Tensor:
        """The other way around."""
        return calls if self._groups is None else calls.index_select(0, self._groups.position)

    def sum_by_example(self, calls: Tensor) -> Tensor:
        """[batch, n] calls: [calls, n], in the order of running."""
        chosen = self.put_back(calls)
        return chosen.view(-1, self._chosen, calls.shape[1]).sum(1) if self._chosen > 1 else chosen


class CallsByRun(Calls):
    """Run by run: each expert once if the calls are grouped, else each call by itself."""

    def __init__(self, runs: Runs, chosen: int, groups: Groups | None = None):
        super().__init__(chosen, groups)
        self._runs = runs
        # To look for the fastest kernel takes a good part of the time of one row's product.
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
        self, rows: Tensor, hidden: Tensor, gradient: Tensor, weights: ExpertWeights, at_rows: Tensor | None
    ) -> tuple[Tensor, ExpertWeights]:
        at_hidden = torch.empty_like(hidden)  # [calls, hidden]
        self._through(gradient, weights.second, at_hidden)
        at_hidden = torch.ops.aten.threshold_backward(at_hidden, hidden, 0)
        if at_rows is not None:
            self._through(at_hidden, weights.first, at_rows)
        used = sorted(set(self._runs.modules))
        second = self._of_weights(used, hidden, gradient)
        first = self._of_weights(used, rows, at_hidden)
        numbers = torch.tensor(used, dtype=torch.int64)
        return to_device(numbers, rows.device), ExpertWeights(*first, *second)

    def _through(self, gradient: Tensor, stack: Tensor, at_inputs: Tensor) -> None:
        """Fill `at_inputs` [calls, m] from the gradient [calls, n] at a layer; stack: [experts, m, n]."""
        modules, sizes = self._runs
        turned = {module: stack[module].T for module in set(modules)}
        parts = (matrix.split(sizes) for matrix in (gradient, at_inputs))
        for module, above, below in zip(modules, *parts, strict=True):
            self._mm(above, turned[module], out=below)

    def _of_weights(self, used: list[int], inputs: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
        """Gradients [used, m, n] and [used, n] of a layer's weights and biases.

        inputs: [calls, m], the layer's; gradient: [calls, n], at its outputs.
        """
        modules, sizes = self._runs
        weights = inputs.new_empty(len(used), inputs.shape[1], gradient.shape[1])  # [used, m, n]
        biases = inputs.new_empty(len(used), gradient.shape[1])  # [used, n]
        targets = dict(zip(used, zip(weights.unbind(), biases.unbind(), strict=True), strict=True))
        ones = inputs.new_ones(len(inputs)).split(sizes)
        parts = (matrix.T.split(sizes, dim=1) for matrix in (inputs, gradient))
        begun: set[int] = set()
        for module, row, at_result, one in zip(modules, *parts, ones, strict=True):
            weight, bias = targets[module]
            kept = 1 if module in begun else 0  # of what is there: the sum of the module's runs before
            weight.addmm_(row, at_result.T, beta=kept)
            bias.addmv_(at_result, one, beta=kept)
            begun.add(module)
        return weights, biases


def _mm(left: Tensor, right: Tensor, *, out: Tensor) -> None:
    """As torch's, by the fastest kernel for some rows."""
    write_product(out, left, right.T)


def _addmm(bias: Tensor, left: Tensor, right: Tensor, *, out: Tensor) -> None:
    """As `_mm`; to add the bias to what is in the cache is faster than to begin with it, as torch's does."""
    _mm(left, right, out=out)
    out.add_(bias)


class GroupedCalls(Calls):
    """All experts by one call of torch's for each layer; nothing here waits to know who is called."""

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
        self, rows: Tensor, hidden: Tensor, gradient: Tensor, weights: ExpertWeights, at_rows: Tensor | None
    ) -> tuple[Tensor, ExpertWeights]:
        """The experts are as many as may have been called: some that were not get gradients of zero."""
        ends = self._groups.ends
        at_hidden = grouped_product(gradient, weights.second.mT, ends)  # [calls, hidden]
        at_hidden = torch.ops.aten.threshold_backward(at_hidden, hidden, 0)
        if at_rows is not None:
            at_rows.copy_(grouped_product(at_hidden, weights.first.mT, ends))
        used = self._perhaps_used()
        second = self._of_weights(used, hidden, gradient)
        first = self._of_weights(used, rows, at_hidden)
        return used, ExpertWeights(*first, *second)

    def _perhaps_used(self) -> Tensor:
        """[used] The experts that are called, in order, among as many others as could be instead of them."""
        sizes = self._groups.sizes
        called_first = (sizes == 0).sort(stable=True).indices
        return called_first[: len(self._groups.order)].sort().values

    def _of_weights(self, used: Tensor, inputs: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
        """As of runs; `used`: [used], in order."""
        # Between two of them are only experts without calls, so that their groups end where they did.
        ends = self._groups.ends.index_select(0, used)
        weights = grouped_product(inputs.T, gradient, ends)  # [used, m, n]
        biases = gradient.new_zeros(len(used), gradient.shape[1])  # [used, n]
        return weights, biases.index_add_(0, torch.searchsorted(used, self._groups.module), gradient)
