"""Ways to run bidirectional LSTMs: by hand, by what PyTorch offers for irregular sizes, and in a graph.

Their parameters are those of an `nn.LSTM`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from parser.batching.device import to_device
from parser.batching.levels import Integers
from parser.batching.operations.cells import Grain, LSTMTemplates, lstm_templates
from parser.batching.operations.operation_graph import Graph
from parser.batching.operations.template import Writer
from parser.batching.operations.writer import Value, Values
from parser.networks.bilstm import bilstm_by_levels, bilstm_packed, bilstm_padded, weights_of
from parser.networks.settings import DIRECTIONS
from parser.speed.tasks.operation_training import AutogradForward
from parser.speed.tasks.plugin import Setup, method

PADDED_TOGETHER = 64
"""Maximum number of sequences that are padded together, to the longest of them."""
BiLSTM = Callable[[nn.LSTM, Tensor, Sequence[int]], Tensor]
"""Maps inputs [frames, in], one sequence after the other, and lengths to states [frames, 2 * hidden]."""
States: TypeAlias = tuple[Tensor, Tensor]
"""Hidden and cell state."""
Cell: TypeAlias = Callable[[Tensor, Tensor, Tensor, Tensor], States]
"""A function like `lstm_cell`."""
Project: TypeAlias = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Maps inputs [frames, in], a weight and a bias to [frames, out]."""


bilstm_padded_together = partial(bilstm_padded, together=PADDED_TOGETHER)


def bilstm_forward(run: BiLSTM, setup: Setup[Any], network: Any) -> AutogradForward:
    """The forward pass whose BiLSTMs run in this way. network: has a method `loss(batch, run)`."""
    return AutogradForward(setup, partial(network.loss, run=run))


def register_batched_bilstms(task: str) -> None:
    """Register `manual`, which runs all sentences together without padding; `library`, over packed sequences;
    and `padded`."""
    method(task, "manual")(partial(bilstm_forward, bilstm_by_levels))
    method(task, "library", pads=True)(partial(bilstm_forward, bilstm_packed))
    method(task, "padded", pads=True)(partial(bilstm_forward, bilstm_padded_together))


class _Steps(NamedTuple):
    """The frames of some sequences in the order in which one direction reads them.

    All sequences that have not ended take a step together, without padding. The longest sequences come first,
    so the sequences of a step are the first ones of the previous step.
    """

    order: Tensor
    """[frames] The frames of the first step, then those of the second, and so on."""
    position: Tensor
    """[frames] The position of each frame in `order`."""
    sizes: list[int]
    """[steps] The number of sequences in each step."""


def _steps_of(lengths: Sequence[int], device: torch.device) -> tuple[_Steps, _Steps]:
    """The steps from the first frames to the last, and those from the last to the first."""
    length = torch.tensor(lengths)  # [sequences]
    longest_first = length.argsort(descending=True, stable=True)
    start, length = (length.cumsum(0) - length)[longest_first], length[longest_first]
    step = torch.arange(int(length.max()))[:, None]
    exists = step < length  # [steps, sequences]
    sizes = exists.sum(1).tolist()
    orders = ((start + step)[exists], (start + length - 1 - step)[exists])
    forward, backward = (
        _Steps(to_device(order, device), to_device(order.argsort(), device), sizes) for order in orders
    )
    return forward, backward


def bilstm_by_steps(
    lstm: nn.LSTM, inputs: Tensor, lengths: Sequence[int], cell: Cell, project: Project = F.linear
) -> Tensor:
    both = _steps_of(lengths, inputs.device)
    for layer in range(lstm.num_layers):
        outputs = []
        for steps, direction in zip(both, DIRECTIONS, strict=True):
            weight_in, weight, bias = weights_of(lstm, layer, direction)
            gates = project(inputs, weight_in, bias)  # [frames, 4 * hidden]
            hidden = memory = gates.new_zeros(steps.sizes[0], weight.shape[1])
            states = []
            by_step = gates.index_select(0, steps.order).split(steps.sizes)
            for size, of_input in zip(steps.sizes, by_step, strict=True):
                hidden, memory = cell(of_input, weight, hidden[:size], memory[:size])
                states.append(hidden)
            outputs.append(torch.cat(states).index_select(0, steps.position))
        inputs = torch.cat(outputs, dim=1)  # [frames, 2 * hidden]
    return inputs


def lstm_cell(of_input: Tensor, weight: Tensor, hidden: Tensor, memory: Tensor) -> States:
    """The next states of one sequence or of several, [..., hidden] each. of_input: [..., 4 * hidden]."""
    gates = of_input + F.linear(hidden, weight)
    into, forget, new, out = gates.chunk(4, dim=-1)
    memory = forget.sigmoid() * memory + into.sigmoid() * new.tanh()
    return out.sigmoid() * memory.tanh(), memory


def bilstm_compiled(lstm: nn.LSTM, inputs: Tensor, lengths: Sequence[int]) -> Tensor:
    """By `torch.compile`, which compiles the one cell of a process when it is called.

    The loop over steps is not compiled: its length differs by batch, so every length would be compiled.
    `nn.LSTM` is not compiled either: `torch.compile` leaves it unchanged.
    """
    return bilstm_by_steps(lstm, inputs, lengths, _compiled_cell())


@cache
def _compiled_cell() -> Cell:
    return torch.compile(lstm_cell, dynamic=True)


def bilstm_nested(lstm: nn.LSTM, inputs: Tensor, lengths: Sequence[int]) -> Tensor:
    """Nested tensors in the jagged layout support linear layers. PyTorch's LSTM rejects them, and no
    operation selects the frames at one position of all sequences, so the steps run over all frames' values.
    """
    offsets = to_device(F.pad(torch.tensor(lengths).cumsum(0), (1, 0)), inputs.device)

    def project(inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        sequences = torch.nested.nested_tensor_from_jagged(inputs, offsets)  # [sequences, (frames), in]
        return F.linear(sequences, weight, bias).values()

    return bilstm_by_steps(lstm, inputs, lengths, lstm_cell, project)


def bilstm_vmapped(lstm: nn.LSTM, inputs: Tensor, lengths: Sequence[int]) -> Tensor:
    """Written for one sequence, and vectorized over padded sequences."""

    def run_layer(padded: Tensor, weights: Sequence[Tensor]) -> Tensor:
        """[longest, sequences, hidden] padded: [longest, sequences, in]"""
        weight_in, weight, bias, _ = weights  # the second bias is zero

        def states_of_one(vectors: Tensor) -> Tensor:
            """[longest, hidden] vectors: [longest, in]"""
            hidden = memory = vectors.new_zeros(weight.shape[1])
            states = []
            for of_input in F.linear(vectors, weight_in, bias).unbind():  # [4 * hidden]
                hidden, memory = lstm_cell(of_input, weight, hidden, memory)
                states.append(hidden)
            return torch.stack(states)

        return torch.func.vmap(states_of_one, in_dims=1, out_dims=1)(padded)

    return bilstm_padded(lstm, inputs, lengths, PADDED_TOGETHER, run_layer)


def bilstm_products(frames: int, inputs: int, hidden: int) -> int:
    """Multiplications of one layer in both directions; the first steps need no recurrent product."""
    return 2 * 4 * hidden * (frames * inputs + (frames - 1) * hidden)


class RecordedBiLSTM:
    """A BiLSTM that is recorded in a graph, or in a template for sequences of one length."""

    def __init__(self, lstm: nn.LSTM, grain: Grain):
        self._layers = [
            [
                lstm_templates(*weights_of(lstm, layer, direction), grain, values=2 if layer else 1)
                for direction in DIRECTIONS
            ]
            for layer in range(lstm.num_layers)
        ]

    def read(self, writer: Writer, values: Sequence[Value]) -> tuple[Sequence[Value], Sequence[Value]]:
        """The forward and the backward hidden states of the top layer, both in the order of the sequence."""
        inputs: tuple[Sequence[Value], ...] = (values,)
        for forward, backward in self._layers:
            rightward = writer.each(forward.project, inputs)[0]
            leftward = writer.each(backward.project, inputs)[0][::-1]
            inputs = (
                writer.chain(forward.first, forward.following, rightward)[0],
                writer.chain(backward.first, backward.following, leftward)[0][::-1],
            )
        left, right = inputs
        return left, right

    def read_together(
        self, graph: Graph, sequences: Sequence[Sequence[Value]]
    ) -> tuple[Sequence[Value], Sequence[Value]]:
        """Like `read` for many sequences, recorded step by step as in manual batching."""
        inputs: tuple[Sequence[Value], ...] = (list(chain.from_iterable(sequences)),)
        lengths = np.array(list(map(len, sequences)))
        last = lengths.cumsum() - 1
        for forward, backward in self._layers:
            rightward, leftward = (graph.each(way.project, inputs)[0] for way in (forward, backward))
            inputs = (
                _chains_together(graph, forward, rightward, last - lengths + 1, lengths, 1),
                _chains_together(graph, backward, leftward, last, lengths, -1),
            )
        left, right = inputs
        return left, right


def _chains_together(
    graph: Graph, layer: LSTMTemplates, gates: Values, first: Integers, lengths: Integers, direction: int
) -> Values:
    """The hidden states of several recurrences, in the order of `gates`.

    first, lengths: [recurrences], the position of the first step, and the number of steps; direction: the
    difference from one position to the next, 1 or -1.
    """
    given, hidden = np.array(gates.numbers), np.empty(len(gates), np.int64)
    states = np.empty((2, len(lengths)), np.int64)  # the hidden and the cell state of each recurrence
    for step in range(lengths.max()):
        running = lengths > step
        positions = (first + direction * step)[running]
        template, before = (layer.following, states[:, running]) if step else (layer.first, ())
        states[:, running] = [new.numbers for new in graph.each(template, [given[positions], *before])]
        hidden[positions] = states[0, running]
    return Values(graph, hidden)


def end_positions(lengths: Sequence[int]) -> tuple[Tensor, Tensor]:
    """The positions of the first and of the last frame of each sequence, [sequences] each."""
    last = torch.tensor(lengths).cumsum(0) - 1
    return last - torch.tensor(lengths) + 1, last


def flat_tensor(sequences: Sequence[Sequence[int]], device: torch.device) -> Tensor:
    """[numbers] The concatenated sequences."""
    return to_device(torch.tensor(list(chain.from_iterable(sequences))), device)
