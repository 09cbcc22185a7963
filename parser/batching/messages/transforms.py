"""Nodes that compute: functions, modules with parameters, and losses.

`d_x` is the gradient of the loss with respect to x.
"""

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
    """Applies a function without parameters to the payload. It may depend on the state."""

    def __init__(self, function: Callable[..., Outputs]):
        """function: takes the state and the tensors of the payload."""
        self._function = function
        self._kept: dict[MessageState, _Computed] = {}

    def forward(self, port: int, message: Message) -> list[Send]:
        inputs, outputs = _computed(
            lambda *tensors: self._function(message.state, *tensors), message.payload, message.training
        )
        if message.training:
            self._kept[message.state] = _Computed(inputs, outputs)
        return onward(message._replace(payload=_detached(outputs)))

    def backward(self, port: int, message: Message) -> list[Send]:
        inputs, outputs = self._kept.pop(message.state)
        d_inputs, _ = _gradients(inputs, outputs, message.payload, ())
        return back(message._replace(payload=d_inputs))

    def held(self) -> int:
        return len(self._kept)


class Parameterised(Node):
    """A module whose parameters belong to this node, and are updated as soon as it has enough gradients.

    The backward pass of a message uses the weights of its forward pass, even if they were updated since
    (weight stashing), so gradients are exact for those weights. This costs one copy of the weights per update
    that can happen between the two passes. The staleness of gradients is counted.
    """

    def __init__(
        self,
        module: nn.Module,
        optimizer: Callable[[Iterable[nn.Parameter]], Optimizer],
        update_after: int,
        copies: bool = True,
    ):
        """update_after: gradients of so many messages are summed for an update (min_update_frequency).

        copies: use a copy of the weights, which updates do not modify. Embedding tables need none, because
        their gradients do not depend on the weights. Raises ValueError if there are no parameters to train.
        """
        self.module, self._update_after, self._copies = module, update_after, copies
        trained = {name: weight for name, weight in module.named_parameters() if weight.requires_grad}
        if not trained:
            raise ValueError(f"{type(module).__name__} has no parameters to train: make it a Transform")
        self._names, self._parameters = tuple(trained), tuple(trained.values())
        self._optimizer = optimizer(self._parameters)
        self._kept: dict[MessageState, tuple[_Computed, tuple[Tensor, ...], int]] = {}
        self._sums = [_GradientSum() for _ in trained]
        self._accumulated = 0
        self.updates = 0
        self.staleness: Counter[int] = Counter()
        """Counts gradients by the number of updates between their forward and backward pass."""
        self.refresh()

    def refresh(self) -> None:
        """Must be called after the parameters were modified from outside."""
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
        return onward(message._replace(payload=_detached(outputs)))

    def backward(self, port: int, message: Message) -> list[Send]:
        (inputs, outputs), weights, updates = self._kept.pop(message.state)
        d_inputs, d_weights = _gradients(inputs, outputs, message.payload, weights)
        for total, gradient in zip(self._sums, d_weights, strict=True):
            total.add(gradient)
        self._accumulated += 1
        self.staleness[self.updates - updates] += 1
        if self._accumulated >= self._update_after:
            self.update()
        return back(message._replace(payload=d_inputs))

    def update(self) -> None:
        """Update the parameters with the accumulated gradients, if there are any."""
        if not self._accumulated:
            return
        self.give_gradients()
        self._optimizer.step()
        self._optimizer.zero_grad()
        self.updates += 1
        self.refresh()

    def give_gradients(self) -> None:
        """Move the accumulated gradients to the parameters' `.grad`, without an update."""
        for weight, total in zip(self._parameters, self._sums, strict=True):
            weight.grad = total.take()
        self._accumulated = 0

    def held(self) -> int:
        return len(self._kept)


def mean(counted: Counter[int]) -> float:
    """The mean of counted numbers, such as `staleness`. There must be at least one."""
    return sum(number * count for number, count in counted.items()) / counted.total()


class _GradientSum:
    """The sum of a parameter's gradients. It does not modify the first one, which may be a payload."""

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


class Updates(NamedTuple):
    """How nodes update their parameters."""

    optimizer: Callable[[Iterable[nn.Parameter]], Optimizer]
    after: int
    """The number of gradients that are summed for an update (min_update_frequency)."""

    in_loop: int | None = None
    """The same for nodes that get several gradients per instance; None: as `after`."""
    of_tables: int | None = None
    """The same for embedding tables; None: as `in_loop`."""
    table_optimizer: Callable[[Iterable[nn.Parameter]], Optimizer] | None = None
    """For tables with sparse gradients; None: as `optimizer`."""

    def of(self, module: nn.Module) -> Parameterised:
        return Parameterised(module, self.optimizer, self.after)

    def of_repeated(self, module: nn.Module) -> Parameterised:
        return Parameterised(module, self.optimizer, self.in_loop or self.after)

    def of_table(self, table: nn.Embedding) -> Parameterised:
        after = self.of_tables or self.in_loop or self.after
        return Parameterised(table, self.table_optimizer or self.optimizer, after, copies=False)


class Losses(NamedTuple):
    loss: Tensor
    """Scalar, summed over the examples."""
    right: int
    examples: int


def losses_of(scores: Tensor, labels: Tensor) -> Losses:
    """scores: [examples, classes]; labels: [examples]"""
    right = int((scores.argmax(1) == labels).sum())
    return Losses(nn.functional.cross_entropy(scores, labels, reduction="sum"), right, len(labels))


class Loss(Node):
    """Compares predictions (input 0) with targets (input 1), and sends the gradients back.

    Its output reports the loss, the number of correct examples, and the number of examples.
    """

    inputs = 2

    def __init__(self, loss: Callable[..., Losses]):
        """loss: takes the tensors of both payloads."""
        self._loss = loss
        self._waiting: dict[MessageState, Message] = {}

    def forward(self, port: int, message: Message) -> list[Send]:
        other = self._waiting.pop(message.state, None)
        if other is None:
            self._waiting[message.state] = message
            return []
        predicted, expected = (message, other) if port == 0 else (other, message)
        inputs = _leaves(predicted.payload, message.training)
        with torch.set_grad_enabled(message.training):
            loss, right, examples = self._loss(*inputs, *expected.payload)
        report = torch.tensor([loss.item(), right, examples], dtype=torch.float64)
        sends = onward(Message((report,), message.state, training=False))
        if message.training:
            d_inputs, _ = _gradients(inputs, (loss,), (torch.ones_like(loss),), ())
            nothing: Payload = (None,) * len(expected.payload)
            sends += back(predicted._replace(payload=d_inputs), 0) + back(
                expected._replace(payload=nothing), 1
            )
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
    """Detached tensors, as leaves of a new autograd graph."""
    assert all(tensor is not None for tensor in payload), "a payload of values must not contain None"
    return tuple(
        tensor.detach().requires_grad_(training and tensor.requires_grad)
        for tensor in payload
        if tensor is not None
    )


def _detached(outputs: Sequence[Tensor]) -> Payload:
    return tuple(output.detach().requires_grad_(output.requires_grad) for output in outputs)


def _gradients(
    inputs: Sequence[Tensor], outputs: Sequence[Tensor], d_outputs: Payload, weights: Sequence[Tensor]
) -> tuple[Payload, Payload]:
    """With respect to the inputs and to the weights; None for zero."""
    flowing = [
        (output, gradient)
        for output, gradient in zip(outputs, d_outputs, strict=True)
        if gradient is not None and output.requires_grad
    ]
    tops, d_tops = [top for top, _ in flowing], [gradient for _, gradient in flowing]
    wanted = [tensor for tensor in (*inputs, *weights) if tensor.requires_grad]
    if not flowing or not wanted:
        return (None,) * len(inputs), (None,) * len(weights)
    found = iter(torch.autograd.grad(tops, wanted, d_tops, allow_unused=True))
    gradients = tuple(next(found) if tensor.requires_grad else None for tensor in (*inputs, *weights))
    return gradients[: len(inputs)], gradients[len(inputs) :]
