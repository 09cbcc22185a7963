"""The methods that run the experts of a batch: our own, and those of `transformers`, for comparison.

Each is called with the setup and the sizes, and returns the experts. All draw the same weights from the same
seed.

In `CalledExperts` the backward pass is our own, because autograd would allocate a gradient of all experts'
weights. Here gradients are computed, stored (as sparse tensors) and applied for the chosen experts only.
`d_x` is the gradient of the loss with respect to x.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from parser.batching.device import to_device
from parser.batching.functional import present_precision, write_product, write_transposed_product
from parser.batching.groups import Groups, Runs, grouped_product, torchs_grouped_product, why_not_grouped
from parser.speed.tasks.experts.network import (
    Around,
    ChosenExperts,
    Experts,
    ExpertSizes,
    ExpertWeights,
    weighted_sum,
)
from parser.speed.tasks.plugin import Mode, Setup, method, methods_of
from parser.system.machine import available_memory

TASK = "mixture_of_experts"
METHODS = methods_of(TASK)
MODES: tuple[Mode, ...] = ("train", "infer")


def too_large(setup: Setup[Any], gradients_of_all: bool = False) -> str | None:
    """Return why the experts do not fit into the memory, or None.

    gradients_of_all: whether a step computes gradients of all experts, as autograd does, or only of called
    ones.
    """
    settings = setup.settings
    first = (settings.input_size + 1) * settings.hidden_size
    second = (settings.hidden_size + 1) * settings.output_size
    stored = settings.experts
    if setup.mode == "train":
        called = min(settings.experts, setup.batch_size * settings.chosen)
        stored += settings.experts if gradients_of_all else called
    needed, free = 4 * stored * (first + second), free_memory(setup.device)
    if free is not None and needed > free:
        return f"{needed / 1e9:.1f} GB of weights and gradients, but {free / 1e9:.1f} GB of memory"
    return None


def free_memory(device: torch.device) -> int | None:
    """The free memory in bytes; None if unknown."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return available_memory()


def no_grouped_product(setup: Setup[Any], gradients_of_all: bool = False) -> str | None:
    """Return why the grouped product is not available for one of the layers, or `too_large`."""
    settings = setup.settings
    widths = (settings.input_size, settings.hidden_size, settings.output_size)
    dtype = torch.bfloat16 if present_precision() == "bfloat16" else torch.float32
    reasons = (why_not_grouped(setup.device, dtype, *layer) for layer in pairwise(widths))
    return next(filter(None, reasons), None) or too_large(setup, gradients_of_all)


@method(TASK, "none", modes=MODES, skip=too_large)
def call_by_call(setup: Setup[Any], sizes: ExpertSizes) -> Experts:
    return CalledExperts(sizes, lambda expert: CallsByRun(Runs.one_by_one(expert), sizes.chosen))


@method(TASK, "static", modes=MODES, skip=too_large, title="a call for each expert")
def expert_by_expert(setup: Setup[Any], sizes: ExpertSizes) -> Experts:
    """Run each expert once, on all its rows."""

    def route(expert: Tensor) -> Calls:
        groups = Groups.of(expert, sizes.experts)
        return CallsByRun(groups.runs(), sizes.chosen, groups)

    return CalledExperts(sizes, route)


@method(TASK, "grouped", modes=MODES, skip=no_grouped_product, title="a grouped product for all experts")
def grouped(setup: Setup[Any], sizes: ExpertSizes) -> Experts:
    return CalledExperts(sizes, lambda expert: GroupedCalls(sizes.chosen, Groups.of(expert, sizes.experts)))


class Calls(ABC):
    """The calls of experts for a batch, in execution order."""

    def __init__(self, chosen: int, groups: Groups | None):
        """chosen: the number of calls per example; groups: the execution order, None for example order."""
        self._chosen, self._groups = chosen, groups

    @abstractmethod
    def __len__(self) -> int:
        """The number of calls. Calls that run together count as one."""

    @abstractmethod
    def forward(self, rows: Tensor, weights: ExpertWeights) -> tuple[Tensor, Tensor]:
        """The hidden layer after the ReLU [calls, hidden], and the outputs [calls, outputs].

        rows: [calls, inputs]
        """

    @abstractmethod
    def backward(
        self, rows: Tensor, hidden: Tensor, gradient: Tensor, weights: ExpertWeights, d_rows: Tensor | None
    ) -> tuple[Tensor, ExpertWeights]:
        """The called experts [used] and their gradients. The gradients of all other experts are zero.

        rows, hidden: as in `forward`; gradient: [calls, outputs], with respect to the outputs; d_rows:
        [calls, inputs], filled with the gradient with respect to the rows, unless it is None.
        """

    def of_examples(self, examples: Tensor) -> Tensor:
        """[calls, n] Gather the row of `examples` [batch, n] for each call."""
        if self._groups is None:
            return examples.repeat_interleave(self._chosen, 0) if self._chosen > 1 else examples
        return examples.index_select(0, self._groups.order // self._chosen)

    def in_order(self, calls: Tensor) -> Tensor:
        """[calls, n] Permute rows from the order of examples to execution order."""
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

        inputs: [calls, m], the layer's inputs; gradient: [calls, n], with respect to its outputs.
        """
        modules, sizes = self._runs
        weights = inputs.new_empty(len(used), inputs.shape[1], gradient.shape[1])  # [used, m, n]
        biases = inputs.new_empty(len(used), gradient.shape[1])  # [used, n]
        targets = dict(zip(used, zip(weights.unbind(), biases.unbind(), strict=True), strict=True))
        ones = inputs.new_ones(len(inputs)).split(sizes)
        parts = (matrix.split(sizes) for matrix in (inputs, gradient))
        seen: set[int] = set()
        for module, row, d_result, one in zip(modules, *parts, ones, strict=True):
            weight, bias = targets[module]
            beta = 1 if module in seen else 0  # 1: add to the sum over earlier runs of the module
            if self._groups is None:
                weight.addmm_(row.T, d_result, beta=beta)
            else:
                write_transposed_product(weight, row, d_result)
            bias.addmv_(d_result.T, one, beta=beta)
            seen.add(module)
        return weights, biases


def _mm(left: Tensor, right: Tensor, *, out: Tensor) -> None:
    """Like `torch.mm`, with the fastest kernel for several rows."""
    write_product(out, left, right.T)


def _addmm(bias: Tensor, left: Tensor, right: Tensor, *, out: Tensor) -> None:
    """Like `torch.addmm`. It is faster to add the bias last, to cached results, than to start with it."""
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
        """Returns as many experts as could be called; those that were not called get zero gradients."""
        ends = self._groups.ends
        d_hidden = grouped_product(gradient, weights.second.mT, ends)  # [calls, hidden]
        d_hidden = torch.ops.aten.threshold_backward(d_hidden, hidden, 0)
        if d_rows is not None:
            d_rows.copy_(grouped_product(d_hidden, weights.first.mT, ends))
        called_first = (self._groups.sizes == 0).sort(stable=True).indices
        used = called_first[: len(self._groups.order)].sort().values
        second = self._weight_gradients(used, hidden, gradient)
        first = self._weight_gradients(used, rows, d_hidden)
        return used, ExpertWeights(*first, *second)

    def _weight_gradients(self, used: Tensor, inputs: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
        """See `CallsByRun._weight_gradients`. used: [used], sorted."""
        # Experts between two used ones have no calls, so the groups end at the same positions.
        ends = self._groups.ends.index_select(0, used)
        weights = grouped_product(inputs.T, gradient, ends)  # [used, m, n]
        biases = gradient.new_zeros(len(used), gradient.shape[1])  # [used, n]
        return weights, biases.index_add_(0, torch.searchsorted(used, self._groups.module), gradient)


class CalledExperts(Experts):
    def __init__(self, sizes: ExpertSizes, route: Callable[[Tensor], Calls]):
        """route: returns the calls of the experts [calls], example by example."""
        super().__init__(sizes)
        self._route = route

    def route(self, choice: ChosenExperts) -> Calls:
        return self._route(choice.expert.flatten())

    def calls(self, routing: Calls) -> int:
        return len(routing)

    def forward(self, inputs: Tensor, choice: ChosenExperts, routing: Calls, around: Around) -> Tensor:
        outputs = _ExpertsFunction.apply(inputs, *self.stacks, routing, around)  # [calls, outputs]
        return weighted_sum(outputs, choice)


class _ExpertsFunction(Function):
    """The outputs [calls, outputs] of each example's experts, in the order of their scores."""

    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        first: Tensor,
        first_bias: Tensor,
        second: Tensor,
        second_bias: Tensor,
        calls: Calls,
        around: Around,
    ) -> Tensor:
        rows = calls.of_examples(inputs)  # [calls, inputs]
        weights = ExpertWeights(first, first_bias, second, second_bias)
        with around.forward():
            hidden, outputs = calls.forward(rows, weights)
        ctx.calls, ctx.around = calls, around
        ctx.save_for_backward(rows, hidden, *weights)
        return calls.put_back(outputs)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        rows, hidden, *weights = ctx.saved_tensors
        calls: Calls = ctx.calls
        gradient = calls.in_order(gradient)
        d_rows = torch.empty_like(rows) if ctx.needs_input_grad[0] else None  # [calls, inputs]
        with ctx.around.backward():
            used, d_weights = calls.backward(rows, hidden, gradient, ExpertWeights(*weights), d_rows)
        d_inputs = None if d_rows is None else calls.sum_by_example(d_rows)
        stacks = (
            torch.sparse_coo_tensor(used[None], values, stack.shape, check_invariants=False)
            for values, stack in zip(d_weights, weights, strict=True)
        )
        return d_inputs, *stacks, None, None


class TransformersExperts(Experts):
    """Experts whose products are computed in the precision of the process, whatever their size."""

    def __init__(self, setup: Setup[Any], sizes: ExpertSizes):
        super().__init__(sizes)
        self._fixed = setup.mode == "infer"  # the weights are converted to the precision only once
        self._converted: ExpertWeights | None = None

    def _factors(self) -> ExpertWeights:
        if self._fixed and self._converted:
            return self._converted
        in_bfloat16 = present_precision() == "bfloat16"
        factors = ExpertWeights(*(stack.bfloat16() if in_bfloat16 else stack for stack in self.stacks))
        self._converted = factors if self._fixed else None
        return factors


@method(
    TASK,
    "loop",
    modes=MODES,
    skip=partial(too_large, gradients_of_all=True),
    title="the loop of transformers",
)
class LoopedExperts(TransformersExperts):
    """The loop of Mixtral in `transformers`.

    For each expert, it finds the numbers of its examples, runs its layers, and calls `index_add_`. The stacks
    of weights are unbound once, because autograd would otherwise allocate the gradient of a whole stack for
    each expert.
    """

    def route(self, choice: ChosenExperts) -> tuple[list[int], Tensor]:
        """The called experts, and whether each example calls each expert, [experts, chosen, batch].

        There is one host synchronisation.
        """
        experts = torch.arange(self.sizes.experts, device=choice.expert.device)
        examples = experts[:, None, None] == choice.expert.T  # [experts, chosen, batch]
        return examples.flatten(1).any(1).nonzero().flatten().tolist(), examples

    def calls(self, routing: tuple[list[int], Tensor]) -> int:
        return len(routing[0])

    def forward(
        self, inputs: Tensor, choice: ChosenExperts, routing: tuple[list[int], Tensor], around: Around
    ) -> Tensor:
        """Run the experts with one host synchronisation for each called expert."""
        called, examples = routing
        outputs = inputs.new_zeros(len(inputs), self.sizes.outputs)  # [batch, outputs]
        factors = self._factors()
        experts = list(zip(*(stack.unbind() for stack in factors), strict=True))
        for number in called:
            rank, example = torch.where(examples[number])  # both [calls of this expert]
            first, first_bias, second, second_bias = experts[number]
            rows = inputs[example].to(first.dtype)
            with around.forward():
                hidden = torch.addmm(first_bias, rows, first).relu_()
                results = torch.addmm(second_bias, hidden, second)
            if choice.share is not None:
                results = results * choice.share[example, rank, None]
            outputs.index_add_(0, example, results.to(outputs.dtype))
        return outputs


@method(
    TASK,
    "library",
    modes=MODES,
    skip=partial(no_grouped_product, gradients_of_all=True),
    title="PyTorch's grouped product with autograd",
)
class SortedExperts(TransformersExperts):
    """Sorted calls, as in `transformers` with `torch.nn.functional.grouped_mm`: sort, two grouped products,
    sort back.
    """

    def route(self, choice: ChosenExperts) -> Groups:
        return Groups.of(choice.expert.flatten(), self.sizes.experts)

    def calls(self, routing: Groups) -> int:
        return 1

    def forward(self, inputs: Tensor, choice: ChosenExperts, routing: Groups, around: Around) -> Tensor:
        first, first_bias, second, second_bias = self._factors()
        product, ends, module = torchs_grouped_product(), routing.ends, routing.module
        rows = inputs[routing.order // self.sizes.chosen].to(first.dtype)  # [calls, inputs]
        with around.forward():
            hidden = product(rows, first, offs=ends) + first_bias[module]  # [calls, hidden]
            outputs = product(hidden.relu_(), second, offs=ends) + second_bias[module]  # [calls, outputs]
        return weighted_sum(outputs[routing.position].to(inputs.dtype), choice)
