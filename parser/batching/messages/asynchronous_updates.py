"""Nodes with parameters, and when the parameters are updated.

`d_x` is the gradient of the loss with respect to x.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from itertools import chain
from typing import Any, Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from parser.batching.messages.message_graph import (
    Computed,
    Message,
    MessageGraph,
    MessageState,
    Node,
    Send,
    back,
    compute,
    detached,
    local_gradients,
    onward,
)

BackwardWeights: TypeAlias = Literal["forward", "present"]
"""The weights that a backward pass uses: those of the message's forward pass, or the present ones."""


class Updates(NamedTuple):
    """How nodes update their parameters.

    >>> node = Updates(torch.optim.Adam, after=4).of(nn.Linear(20, 50))
    >>> node.updates
    0
    """

    optimizer: Callable[[Iterable[nn.Parameter]], Optimizer]
    after: int
    """The number of gradients that a node accumulates for an update (min_update_frequency)."""

    in_loop: int | None = None
    """The same number for nodes that get several gradients per instance; None: use `after`."""
    table_optimizer: Callable[[Iterable[nn.Parameter]], Optimizer] | None = None
    """The optimizer of tables with sparse gradients; None: use `optimizer`."""
    backward_weights: BackwardWeights = "forward"

    def of(self, module: nn.Module) -> Parameterised:
        return Parameterised(module, self.optimizer, self.after, self.backward_weights)

    def of_repeated(self, module: nn.Module) -> Parameterised:
        after = self.in_loop or self.after
        return Parameterised(module, self.optimizer, after, self.backward_weights)

    def of_table(self, table: nn.Embedding) -> Parameterised:
        """A table's gradients do not depend on its weights, so no copies of the weights are needed."""
        return Parameterised(table, self.table_optimizer or self.optimizer, self.after, "present")


class Parameterised(Node):
    """A module whose parameters belong to this node, and are updated as soon as it gets enough gradients.

    With `forward` weights, the backward pass of a message uses the weights of its forward pass, even if they
    were updated since (weight stashing), so gradients are exact for those weights. This costs one copy of the
    weights per update that can happen between the two passes.

    With `present` weights, as in the paper (section 4), the backward pass uses the activations of the forward
    pass and the weights at the time of the backward pass. For y = x W^T these are d_x = d_y W, with the
    present W, and d_W = d_y^T x. Nothing is copied or computed again. If the weights were updated in between,
    the result is the gradient neither at the old nor at the present weights. Recomputing the forward pass at
    the present weights would give their gradient for this node, but its inputs and d_y would still come from
    other weights. What a module computes from its weights alone, such as a stack of them, counts as an
    activation.

    The staleness of gradients is counted.
    """

    def __init__(
        self,
        module: nn.Module,
        optimizer: Callable[[Iterable[nn.Parameter]], Optimizer],
        update_after: int,
        backward_weights: BackwardWeights = "forward",
    ):
        """update_after: the number of gradients that are summed for an update (min_update_frequency).

        Raises ValueError if there are no parameters to train.
        """
        self.module, self._update_after, self._backward_weights = module, update_after, backward_weights
        trained = [weight for weight in module.parameters() if weight.requires_grad]
        if not trained:
            raise ValueError(f"{type(module).__name__} has no parameters to train: make it a Transform")
        self._parameters = tuple(trained)
        self._used = ModuleWithWeights(module, self._parameters)
        self._optimizer = optimizer(self._parameters)
        self._kept: dict[MessageState, tuple[Computed, tuple[Tensor, ...], int]] = {}
        self._sums = [_GradientSum() for _ in trained]
        self._accumulated = 0
        self.updates = 0
        self.staleness: Counter[int] = Counter()
        """Counts gradients by the number of updates between their forward and backward pass."""
        self.refresh()

    def refresh(self) -> None:
        """Use the current parameters. Must be called after they were modified from outside."""
        if self._backward_weights == "forward":
            used = [weight.detach().clone() for weight in self._parameters]
        else:  # `data` shares memory with the parameter, but autograd does not count its changes
            used = [weight.data for weight in self._parameters]
        self._weights = tuple(weight.requires_grad_() for weight in used)
        self._used.set(self._weights)

    def forward(self, port: int, message: Message) -> list[Send]:
        inputs, outputs = compute(self._used, message.payload, message.training)
        if message.training:
            self._kept[message.state] = Computed(inputs, outputs), self._weights, self.updates
        return onward(message.carrying(detached(outputs)))

    def backward(self, port: int, message: Message) -> list[Send]:
        (inputs, outputs), weights, updates = self._kept.pop(message.state)
        d_inputs, d_weights = local_gradients(inputs, outputs, message.payload, weights)
        for total, gradient in zip(self._sums, d_weights, strict=True):
            total.add(gradient)
        self._accumulated += 1
        self.staleness[self.updates - updates] += 1
        if self._accumulated >= self._update_after:
            self.update()
        return back(message.carrying(d_inputs))

    def update(self) -> None:
        """Update the parameters with the accumulated gradients, if there are any."""
        if not self._accumulated:
            return
        self.give_gradients()
        self._optimizer.step()
        for weight in self._parameters:
            weight.grad = None
        self.updates += 1
        self.refresh()

    def give_gradients(self) -> None:
        """Move the accumulated gradients to the parameters' `.grad`, without an update."""
        for weight, total in zip(self._parameters, self._sums, strict=True):
            weight.grad = total.take()
        self._accumulated = 0

    def outstanding(self) -> int:
        return len(self._kept)


class _GradientSum:
    """The sum of a parameter's gradients. The first gradient is not modified, because it can be a payload."""

    def __init__(self) -> None:
        self._total: Tensor | None = None
        self._is_own = False

    def add(self, gradient: Tensor | None) -> None:
        if gradient is None:
            return
        if self._total is None:
            self._total, self._is_own = gradient, False
        elif self._is_own:
            self._total.add_(gradient)
        else:
            self._total, self._is_own = self._total + gradient, True

    def take(self) -> Tensor | None:
        """Return the sum and reset it."""
        total, self._total = self._total, None
        return total


def mean_staleness(counted: Counter[int]) -> float:
    """Return the mean of counted numbers, such as `staleness`. There must be at least one number."""
    return sum(number * count for number, count in counted.items()) / counted.total()


class ModuleWithWeights:
    """Like `torch.func.functional_call`, but weights are set when they change, not at every call.

    Other parameters, buffers and the mode (training or not) are shared with the module. Other attributes are
    copied once.
    """

    def __init__(self, module: nn.Module, weights: Sequence[nn.Parameter]):
        """weights: the parameters of the module that will be replaced."""
        number = {id(weight): position for position, weight in enumerate(weights)}
        tensors = {id(tensor): tensor for tensor in chain(module.parameters(), module.buffers())}
        self._module = deepcopy(module, memo=tensors)  # the tensors themselves are shared
        self._modes = list(zip(self._module.modules(), module.modules(), strict=True))
        self._slots: list[tuple[nn.Module, str, int]] = []
        for part in self._module.modules():
            for name, weight in list(part.named_parameters(recurse=False, remove_duplicate=False)):
                if id(weight) in number:
                    self._slots.append((part, name, number[id(weight)]))
                    delattr(part, name)

    def __call__(self, *inputs: Tensor | None) -> Any:
        for copied, original in self._modes:
            if copied.training != original.training:
                copied.training = original.training
        return self._module(*inputs)

    def set(self, weights: Sequence[Tensor]) -> None:
        """Set the weights, in the order of the parameters that they replace."""
        for part, name, position in self._slots:
            object.__setattr__(part, name, weights[position])  # the module's method looks for parameters


def parameterised_nodes(graph: MessageGraph) -> list[Parameterised]:
    """Return the nodes of a graph that have parameters."""
    return [node for node in graph.nodes.values() if isinstance(node, Parameterised)]


def update_all(graph: MessageGraph) -> None:
    """Update all parameters with the accumulated gradients, if there are any.

    >>> graph = MessageGraph()
    >>> graph.add("layer", Updates(torch.optim.Adam, after=4).of(nn.Linear(2, 2)))
    >>> update_all(graph)
    """
    for node in parameterised_nodes(graph):
        node.update()


def staleness(graph: MessageGraph) -> Counter[int]:
    """Count gradients by the number of updates between their forward and backward pass."""
    return sum((node.staleness for node in parameterised_nodes(graph)), Counter[int]())


@torch.no_grad()
def average(modules: Sequence[nn.Module]) -> None:
    """Set the weights of all replicas to their mean."""
    for weights in zip(*(module.parameters() for module in modules), strict=True):
        mean = torch.stack([weight.data for weight in weights]).mean(0)
        for weight in weights:
            weight.copy_(mean)
