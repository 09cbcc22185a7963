"""Nodes that compute: functions, functions with parameters of their own, and losses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.optim import Optimizer

from parser.batching.messages.message import Message, MessageState, Send, back, onward
from parser.batching.messages.node import Node
from parser.batching.messages.payload import Payload

Outputs = Tensor | tuple[Tensor, ...]


class Transform(Node):
    """A function without parameters of the payload; it may depend on the state."""

    def __init__(self, function: Callable[..., Outputs]):
        """function: of the state and the payload's tensors."""
        self._function = function
        self._kept: dict[MessageState, _Computed] = {}

    def forward(self, port: int, message: Message) -> list[Send]:
        inputs, outputs = _computed(
            lambda *tensors: self._function(message.state, *tensors), message.payload, message.training
        )
        if message.training:
            self._kept[message.state] = _Computed(inputs, outputs)
        return onward(message._replace(payload=_without_graph(outputs)))

    def backward(self, port: int, message: Message) -> list[Send]:
        inputs, outputs = self._kept.pop(message.state)
        at_inputs, _ = _gradients(inputs, outputs, message.payload, ())
        return back(message._replace(payload=at_inputs))

    def held(self) -> int:
        return len(self._kept)


class Parameterised(Node):
    """A module whose parameters are this node's own, and are changed as soon as enough gradients are there.

    A message goes back through the weights by which it came, whatever has become of them since (weight
    stashing): its gradients are exact for those, and are added to others'. That costs a copy of the weights
    for an update, and as many copies as updates can lie between. How late gradients are is counted.
    """

    def __init__(
        self,
        module: nn.Module,
        optimizer: Callable[[Iterable[nn.Parameter]], Optimizer],
        update_after: int,
        copies: bool = True,
    ):
        """update_after: the gradients of so many messages are summed for an update (min_update_frequency).

        copies: whether messages come by a copy of the weights, which updates leave alone. A table of vectors
        needs none: its gradients are the same by any weights. Raises ValueError if there is nothing to train.
        """
        self.module, self._update_after, self._copies = module, update_after, copies
        trained = {name: weight for name, weight in module.named_parameters() if weight.requires_grad}
        if not trained:
            raise ValueError(f"{type(module).__name__} has no parameters to train: make it a Transform")
        self._names, self._parameters = tuple(trained), tuple(trained.values())
        self._optimizer = optimizer(self._parameters)
        self._kept: dict[MessageState, tuple[_Computed, tuple[Tensor, ...], int]] = {}
        self._sums = [_GradientSum() for _ in trained]
        self._gathered = 0
        self.updates = 0
        self.staleness: Counter[int] = Counter()
        """Of gradients: by how many updates they were late."""
        self.refresh()

    def refresh(self) -> None:
        """To be called when somebody else has changed the parameters."""
        if self._copies:
            self._weights = tuple(weight.detach().clone().requires_grad_() for weight in self._parameters)
        else:
            self._weights = self._parameters

    def forward(self, port: int, message: Message) -> list[Send]:
        weights = self._weights
        named = dict(zip(self._names, weights, strict=True))
        inputs, outputs = _computed(
            lambda *tensors: functional_call(self.module, named, tensors), message.payload, message.training
        )
        if message.training:
            self._kept[message.state] = _Computed(inputs, outputs), weights, self.updates
        return onward(message._replace(payload=_without_graph(outputs)))

    def backward(self, port: int, message: Message) -> list[Send]:
        (inputs, outputs), weights, updates = self._kept.pop(message.state)
        at_inputs, at_weights = _gradients(inputs, outputs, message.payload, weights)
        for total, gradient in zip(self._sums, at_weights, strict=True):
            total.add(gradient)
        self._gathered += 1
        self.staleness[self.updates - updates] += 1
        if self._gathered >= self._update_after:
            self.update()
        return back(message._replace(payload=at_inputs))

    def update(self) -> None:
        """By the gradients that are gathered, if there are any."""
        if not self._gathered:
            return
        self.give_gradients()
        self._optimizer.step()
        self._optimizer.zero_grad()
        self.updates += 1
        self.refresh()

    def give_gradients(self) -> None:
        """Those that are gathered to the parameters, instead of using them."""
        for weight, total in zip(self._parameters, self._sums, strict=True):
            weight.grad = total.take()
        self._gathered = 0

    def held(self) -> int:
        return len(self._kept)


def mean(counted: Counter[int]) -> float:
    """Of numbers that were counted, as staleness is; there must be some."""
    return sum(number * count for number, count in counted.items()) / counted.total()


class _GradientSum:
    """Of a parameter. The first gradient may be a message's payload, too, and is left as it is."""

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
        """What there is; then there is nothing."""
        total, self._total = self._total, None
        return total


class Updates(NamedTuple):
    """How nodes change their parameters."""

    optimizer: Callable[[Iterable[nn.Parameter]], Optimizer]
    after: int
    """Gradients that are summed for an update (min_update_frequency)."""

    in_loop: int | None = None
    """The same for nodes that get several gradients of an instance; None: as many as the others."""
    of_tables: int | None = None
    """The same for tables of vectors; None: as many as nodes in a loop."""
    table_optimizer: Callable[[Iterable[nn.Parameter]], Optimizer] | None = None
    """Of tables with sparse gradients; None: the others'."""

    def of(self, module: nn.Module) -> Parameterised:
        return Parameterised(module, self.optimizer, self.after)

    def of_repeated(self, module: nn.Module) -> Parameterised:
        return Parameterised(module, self.optimizer, self.in_loop or self.after)

    def of_table(self, table: nn.Embedding) -> Parameterised:
        after = self.of_tables or self.in_loop or self.after
        return Parameterised(table, self.table_optimizer or self.optimizer, after, copies=False)


class Losses(NamedTuple):
    loss: Tensor
    """[] The sum of the examples' losses, which is differentiated."""
    right: int
    examples: int


def losses_of(scores: Tensor, labels: Tensor) -> Losses:
    """scores: [examples, classes]; labels: [examples]"""
    right = int((scores.argmax(1) == labels).sum())
    return Losses(nn.functional.cross_entropy(scores, labels, reduction="sum"), right, len(labels))


class Loss(Node):
    """Compares what the network says (input 0) with what is right (input 1), and sends the gradients back.

    Its output says how good it was: the loss, how many examples were right, and how many there were.
    """

    inputs = 2

    def __init__(self, loss: Callable[..., Losses]):
        """loss: of the tensors of both payloads."""
        self._loss = loss
        self._waiting: dict[MessageState, Message] = {}

    def forward(self, port: int, message: Message) -> list[Send]:
        other = self._waiting.pop(message.state, None)
        if other is None:
            self._waiting[message.state] = message
            return []
        said, expected = (message, other) if port == 0 else (other, message)
        inputs = _leaves(said.payload, message.training)
        with torch.set_grad_enabled(message.training):
            loss, right, examples = self._loss(*inputs, *expected.payload)
        report = torch.tensor([loss.item(), right, examples], dtype=torch.float64)
        sends = onward(Message((report,), message.state, training=False))
        if message.training:
            at_inputs, _ = _gradients(inputs, (loss,), (torch.ones_like(loss),), ())
            nothing: Payload = (None,) * len(expected.payload)
            sends += back(said._replace(payload=at_inputs), 0) + back(expected._replace(payload=nothing), 1)
        return sends

    def backward(self, port: int, message: Message) -> list[Send]:
        raise AssertionError("reports are not answered")

    def held(self) -> int:
        return len(self._waiting)


class _Computed(NamedTuple):
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


def _computed(function: Callable[..., Outputs], payload: Payload, training: bool) -> _Computed:
    inputs = _leaves(payload, training)
    with torch.set_grad_enabled(training):
        outputs = function(*inputs)
    return _Computed(inputs, (outputs,) if isinstance(outputs, Tensor) else outputs)


def _leaves(payload: Payload, training: bool) -> tuple[Tensor, ...]:
    """Of a graph of their own."""
    assert all(tensor is not None for tensor in payload), "gradients, where values are expected"
    return tuple(
        tensor.detach().requires_grad_(training and tensor.requires_grad)
        for tensor in payload
        if tensor is not None
    )


def _without_graph(outputs: Sequence[Tensor]) -> Payload:
    return tuple(output.detach().requires_grad_(output.requires_grad) for output in outputs)


def _gradients(
    inputs: Sequence[Tensor], outputs: Sequence[Tensor], at_outputs: Payload, weights: Sequence[Tensor]
) -> tuple[Payload, Payload]:
    """At the inputs, and at the weights; None where nothing flows."""
    flowing = [
        (output, gradient)
        for output, gradient in zip(outputs, at_outputs, strict=True)
        if gradient is not None and output.requires_grad
    ]
    tops, at_tops = [top for top, _ in flowing], [gradient for _, gradient in flowing]
    wanted = [tensor for tensor in (*inputs, *weights) if tensor.requires_grad]
    if not flowing or not wanted:
        return (None,) * len(inputs), (None,) * len(weights)
    found = iter(torch.autograd.grad(tops, wanted, at_tops, allow_unused=True))
    gradients = tuple(next(found) if tensor.requires_grad else None for tensor in (*inputs, *weights))
    return gradients[: len(inputs)], gradients[len(inputs) :]
