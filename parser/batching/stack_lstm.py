"""An LSTM over stacks (Dyer et al. 2015; Ding & Koehn 2019), in which each row follows the row below it.

Its operations are `PUSH`, `POP` and `HOLD` of `parser.batching.stack`, and two that replace rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from parser.batching.device import to_device
from parser.batching.forest_lstm import SortedForest, StackForest, lstm_over_forest
from parser.batching.functional import dropout, linear
from parser.batching.lstm import input_parameters, lstm_cell, recurrent_weight
from parser.batching.stack import Stack


class StackLSTM(nn.Module):
    """An LSTM over a batch of stacks, level by level if the operations are known, otherwise step by step.

    Both ways compute the same states. The state of an empty stack is zero.

    >>> operations = torch.tensor([[PUSH, PUSH, POP], [PUSH, HOLD, HOLD]])  # [batch, steps, 2]
    >>> read, move = operations.unbind(2)
    >>> lstm = StackLSTM(input_size=4, hidden_size=8)
    >>> states = lstm(torch.randn(2, 3, 4), read, move)  # [batch, steps + 1, hidden]
    >>> torch.equal(states[0, 3], states[0, 1])  # after the pop, and before the second push
    True
    """

    def __init__(self, input_size: int, hidden_size: int, layers: int = 1, dropout: float = 0.0):
        """dropout: between layers, as in `torch.nn.LSTM`."""
        super().__init__()
        self.lstm = nn.LSTM(input_size, hidden_size, layers, dropout=dropout)

    def forward(self, vectors: Tensor, read: Tensor, move: Tensor) -> Tensor:
        """[batch, steps + 1, hidden] The state on top of each stack before each step, and after the last.

        vectors: [batch, steps, input]; the vectors of `POP` and `HOLD` have no effect. read, move: [batch,
        steps] on the host, see `StackOperation`. Pad shorter sequences with `HOLD`. Raises ValueError for
        other shapes, and if a stack contains too few vectors for an operation.
        """
        self._check(vectors, read, move)
        read, move = read.long(), move.long()
        stacks = StackForest.of(read, move)
        batch, columns = stacks.top.shape
        # Column 0 is the empty stack, which is not a node here.
        is_node = stacks.is_node & (torch.arange(columns) > 0)  # [batch, columns]
        number = (is_node.flatten().cumsum(0) - 1).view(batch, columns)
        below = number.gather(1, stacks.parent.clamp(min=0)).masked_fill(stacks.parent <= 0, -1)
        forest, order, position = SortedForest.of(below[is_node], stacks.depth[is_node] - 1)
        rows = torch.arange(batch * columns)[is_node.flatten()] - is_node.nonzero()[:, 0] - 1
        inputs = vectors.flatten(0, 1)[to_device(rows[order], vectors.device)]  # [nodes, input]
        states = lstm_over_forest(self.lstm, inputs, forest.to(vectors.device))  # [nodes, hidden]
        empty = torch.zeros(1, dtype=torch.long)
        row = torch.cat([empty, position + 1])  # of each node, after the empty stack
        top = (number.gather(1, stacks.top) + 1).masked_fill(stacks.top == 0, 0)  # [batch, columns]
        with_empty = torch.cat([states.new_zeros(1, self.lstm.hidden_size), states])
        return with_empty[to_device(row[top], vectors.device)]

    def _check(self, vectors: Tensor, read: Tensor, move: Tensor) -> None:
        for name, given in (("vectors", vectors), ("read", read), ("move", move)):
            _check_tensor(name, given)
        _check_vectors(vectors, self.lstm)
        shapes = [list(given.shape) for given in (vectors, read, move)]
        if vectors.dim() != 3 or shapes[1:] != [shapes[0][:2]] * 2:
            raise ValueError(
                "vectors must be [batch, steps, input], read and move [batch, steps], not "
                f"{shapes[0]}, {shapes[1]} and {shapes[2]}"
            )
        if read.device.type != "cpu" or move.device.type != "cpu":
            raise ValueError("read and move must be on the host, where the levels are found: `read.cpu()`")
        _check_integers(read, move)
        before = move.cumsum(1) - move  # [batch, steps] heights
        for step in _is_wrong(before, read, move).any(0).nonzero()[:1].flatten().tolist():
            _check_heights(before[:, step], read[:, step], move[:, step], step)

    def begin(self, batch: int) -> SteppedStacks:
        """Return empty stacks, for operations step by step."""
        return SteppedStacks(self.lstm, batch)


class SteppedStacks:
    """A batch of stacks of LSTM states."""

    def __init__(self, lstm: nn.LSTM, batch: int):
        self._lstm, self._steps = SteppedLSTM(lstm), 0
        self._stack = Stack(batch, self._lstm.state_size, like=recurrent_weight(lstm, 0))

    def operate(self, vectors: Tensor, read: Tensor | int, move: Tensor | int) -> None:
        """Do one step. vectors: [batch, input]; read, move: [batch], or one number, see `StackOperation`.

        Raises ValueError for other shapes and types. It also does so if a stack contains too few vectors, but
        only on a CPU, because the host would have to wait for any other device.
        """
        height = self._stack.height
        _check_tensor("vectors", vectors)
        for name, given in (("read", read), ("move", move)):
            if not isinstance(given, int):
                _check_tensor(name, given)
        read, move = (
            to_device(given, height.device) if isinstance(given, Tensor) else given for given in (read, move)
        )
        _check_vectors(vectors, self._lstm.lstm)
        if vectors.dim() != 2 or len(vectors) != len(height):
            raise ValueError(f"vectors must be [{len(height)}, input], not {list(vectors.shape)}")
        highest = self._steps
        if height.device.type == "cpu":
            _check_heights(height, torch.as_tensor(read), torch.as_tensor(move), self._steps)
            highest = int(height.max()) if len(height) else 0
        self._steps += 1
        self._stack.reserve(highest + 1)
        before = self._lstm.split(self._stack.previous(read))
        self._stack.write(read, move, join(self._lstm.advance(self._lstm.project(vectors), before)))

    def top(self) -> Tensor:
        """[batch, hidden] The state of the last layer, on top of each stack."""
        return self._lstm.output(self._stack.top())


def _check_tensor(name: str, given: object) -> None:
    if not isinstance(given, Tensor):
        raise TypeError(f"{name} must be a tensor, not {type(given).__name__}: `torch.as_tensor({name})`")


def _check_vectors(vectors: Tensor, lstm: nn.LSTM) -> None:
    """Check vectors [..., input]. Raises ValueError for other widths and types."""
    dtype = recurrent_weight(lstm, 0).dtype
    if vectors.dtype != dtype:
        raise ValueError(
            f"vectors of {vectors.dtype}, but the LSTM is of {dtype}: convert them by `vectors.to({dtype})`, "
            f"or the LSTM by `.to({vectors.dtype})`"
        )
    if vectors.shape[-1:] != (lstm.input_size,):
        raise ValueError(
            f"vectors of shape {list(vectors.shape)}, but the LSTM takes a width of {lstm.input_size}"
        )


def _check_heights(height: Tensor, read: Tensor, move: Tensor, step: int) -> None:
    """Check operations. height: [batch]; read, move: [batch] or [].

    Raises ValueError if a stack is too low for its operation, or if an operation is invalid.
    """
    _check_integers(read, move)
    for given in (read, move):
        if given.shape not in ((), height.shape):
            raise ValueError(f"read and move must be [{len(height)}] or one number, not {list(given.shape)}")
    for stack in _is_wrong(height, read, move).nonzero()[:1].flatten().tolist():
        its_read, its_move = (given.expand_as(height)[stack] for given in (read, move))
        what = f"stack {stack} has {height[stack]} vectors at step {step}"
        if its_read < 0 or its_move > 1 - its_read:
            raise ValueError(f"{what}, and is to read {its_read}, move {its_move}: this is no StackOperation")
        raise ValueError(f"{what}, too few for its operation: read {its_read}, move {its_move}")


def _check_integers(read: Tensor, move: Tensor) -> None:
    if read.is_floating_point() or move.is_floating_point():
        raise ValueError(f"read and move must be integers, not {read.dtype} and {move.dtype}")


def _is_wrong(height: Tensor, read: Tensor, move: Tensor) -> Tensor:
    """Whether each stack is too low or its operation invalid. height, read, move: tensors of one shape."""
    return (height < read) | (height + move < 0) | (read < 0) | (move > 1 - read)


States = Sequence[Tensor]
"""The hidden state and the cell state of each layer, [batch, hidden] each."""


class SteppedLSTM:
    """Runs with the parameters of a `torch.nn.LSTM`."""

    def __init__(self, lstm: nn.LSTM):
        layers = range(lstm.num_layers)
        self.lstm = lstm
        # Biases are added up once, not at each frame.
        self._inputs = [input_parameters(lstm, layer) for layer in layers]
        self._recurrent = [recurrent_weight(lstm, layer) for layer in layers]

    @property
    def state_size(self) -> int:
        """The size of the concatenated states."""
        return 2 * self.lstm.num_layers * self.lstm.hidden_size

    def project(self, inputs: Tensor) -> Tensor:
        """[rows, 4 * hidden] The part of the lowest layer's gates that depends on inputs [rows, input]."""
        return linear(inputs, *self._inputs[0])

    def advance(self, projected: Tensor, states: States) -> States:
        """Return the states after a frame. projected: [batch, 4 * hidden], see `project`."""
        after: list[Tensor] = []
        for layer, recurrent in enumerate(self._recurrent):
            hidden, cell = states[2 * layer : 2 * layer + 2]
            if layer:
                below = dropout(after[-2], self.lstm.dropout, self.lstm.training)
                projected = linear(below, *self._inputs[layer])
            after += lstm_cell(projected, linear(hidden, recurrent), cell)
        return after

    def first(self, inputs: Tensor) -> States:
        """Return the states, [1, hidden] each, after one frame with the inputs [input]."""
        zeros = inputs.new_zeros(1, self.state_size)
        return self.advance(self.project(inputs[None]), self.split(zeros))

    def split(self, joined: Tensor) -> States:
        """The inverse of `join`. joined: [batch, state], the concatenated states."""
        return joined.split(self.lstm.hidden_size, dim=1)

    def output(self, joined: Tensor) -> Tensor:
        """[batch, hidden] The hidden state of the top layer. joined: as in `split`."""
        return joined[:, -2 * self.lstm.hidden_size : -self.lstm.hidden_size]


def join(states: States) -> Tensor:
    """[batch, state] The states, concatenated."""
    return torch.cat(list(states), dim=1)


def output(states: States) -> Tensor:
    """[batch, hidden] Like `SteppedLSTM.output`, for states that are not concatenated."""
    return states[-2]
