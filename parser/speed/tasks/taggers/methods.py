"""The methods that batch BiLSTM taggers: in a graph, by hand, and by what PyTorch offers for irregular sizes.

Each is called with the setup and the tagger, and returns the forward pass of a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, NamedTuple, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from parser.batching.device import to_device
from parser.networks.bilstm import DIRECTIONS, bilstm_by_levels, bilstm_packed, bilstm_padded, weights_of
from parser.speed.tasks.bilstms import PADDED_TOGETHER, bilstm_padded_together
from parser.speed.tasks.operation_training import AutogradForward, Forward, GraphForward, missing_compiler
from parser.speed.tasks.plugin import Setup, method, methods_of
from parser.speed.tasks.taggers.network import RecordedTagger, Tagger

TASK = "bilstm_tagger"
METHODS = methods_of(TASK)
AnyForward: TypeAlias = Callable[[Any], Forward]


@method(TASK, "none", "depth", "agenda")
def in_graph(setup: Setup[Any], tagger: Tagger) -> AnyForward:
    """Record the sentences one after the other, and batch their graph."""
    return GraphForward.by_example(setup, RecordedTagger(tagger, setup.settings.grain).losses)


@method(TASK, "manual")
def by_hand(setup: Setup[Any], tagger: Tagger) -> AnyForward:
    """Run all sentences together, step by step."""
    return AutogradForward(setup, partial(tagger.loss, run=bilstm_by_levels))


@method(TASK, "library", pads=True)
def by_library(setup: Setup[Any], tagger: Tagger) -> AnyForward:
    return AutogradForward(setup, partial(tagger.loss, run=bilstm_packed))


@method(TASK, "padded", pads=True)
def padded(setup: Setup[Any], tagger: Tagger) -> AnyForward:
    return AutogradForward(setup, partial(tagger.loss, run=bilstm_padded_together))


def by_hand_then(further: str, setup: Setup[Any], tagger: Tagger) -> AnyForward:
    """Record the steps of `by_hand`, and batch their graph further. further: its batching method."""
    return GraphForward(setup, RecordedTagger(tagger, setup.settings.grain).losses_together, further)


method(TASK, "manual-depth", title="batched by hand, then by depth")(partial(by_hand_then, "depth"))
method(TASK, "manual-agenda", title="batched by hand, then by agenda")(partial(by_hand_then, "agenda"))


@method(TASK, "nested")
def nested(setup: Setup[Any], tagger: Tagger) -> AnyForward:
    return AutogradForward(setup, partial(tagger.loss, run=bilstm_nested))


@method(TASK, "vmap", pads=True)
def vmapped(setup: Setup[Any], tagger: Tagger) -> AnyForward:
    return AutogradForward(setup, partial(tagger.loss, run=bilstm_vmapped))


@method(TASK, "compiled", skip=lambda setup: missing_compiler())
def compiled(setup: Setup[Any], tagger: Tagger) -> AnyForward:
    return AutogradForward(setup, partial(tagger.loss, run=bilstm_compiled))


States: TypeAlias = tuple[Tensor, Tensor]
"""Hidden and cell state."""
Cell: TypeAlias = Callable[[Tensor, Tensor, Tensor, Tensor], States]
"""A function like `lstm_cell`."""
Project: TypeAlias = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Maps inputs [frames, in], a weight and a bias to [frames, out]."""


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
    """[frames, 2 * hidden] inputs: [frames, in], one sequence after the other."""
    both = _steps_of(lengths, inputs.device)
    for layer in range(lstm.num_layers):
        states = []
        for steps, direction in zip(both, DIRECTIONS, strict=True):
            weight_in, weight, bias = weights_of(lstm, layer, direction)
            states.append(_run(project(inputs, weight_in, bias), weight, steps, cell))
        inputs = torch.cat(states, dim=1)
    return inputs


def _run(gates: Tensor, weight: Tensor, steps: _Steps, cell: Cell) -> Tensor:
    """[frames, hidden] gates: [frames, 4 * hidden] of the inputs; weight: [4 * hidden, hidden]."""
    hidden = memory = gates.new_zeros(steps.sizes[0], weight.shape[1])
    states = []
    for size, of_input in zip(
        steps.sizes, gates.index_select(0, steps.order).split(steps.sizes), strict=True
    ):
        hidden, memory = cell(of_input, weight, hidden[:size], memory[:size])
        states.append(hidden)
    return torch.cat(states).index_select(0, steps.position)


def lstm_cell(of_input: Tensor, weight: Tensor, hidden: Tensor, memory: Tensor) -> States:
    """The next states of one sequence or of several, [..., hidden] each. of_input: [..., 4 * hidden]."""
    gates = of_input + F.linear(hidden, weight)
    into, forget, new, out = gates.chunk(4, dim=-1)
    memory = forget.sigmoid() * memory + into.sigmoid() * new.tanh()
    return out.sigmoid() * memory.tanh(), memory


def bilstm_compiled(lstm: nn.LSTM, inputs: Tensor, lengths: Sequence[int]) -> Tensor:
    """[frames, 2 * hidden] inputs: [frames, in], one sequence after the other.

    The loop over steps is not compiled: its length differs by batch, so every length would be compiled.
    `nn.LSTM` is not compiled either: `torch.compile` leaves it unchanged.
    """
    return bilstm_by_steps(lstm, inputs, lengths, _compiled_cell())


@cache
def _compiled_cell() -> Cell:
    """The one compiled cell of a process. PyTorch compiles it when it is called."""
    return torch.compile(lstm_cell, dynamic=True)


def bilstm_nested(lstm: nn.LSTM, inputs: Tensor, lengths: Sequence[int]) -> Tensor:
    """[frames, 2 * hidden] inputs: [frames, in], one sequence after the other.

    Nested tensors in the jagged layout support linear layers. PyTorch's LSTM rejects them, and no operation
    selects the words at one position of all sentences, so the steps run over the values of all words.
    """
    offsets = to_device(F.pad(torch.tensor(lengths).cumsum(0), (1, 0)), inputs.device)

    def project(inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        sequences = torch.nested.nested_tensor_from_jagged(inputs, offsets)  # [sequences, (frames), in]
        return F.linear(sequences, weight, bias).values()

    return bilstm_by_steps(lstm, inputs, lengths, lstm_cell, project)


def bilstm_vmapped(lstm: nn.LSTM, inputs: Tensor, lengths: Sequence[int]) -> Tensor:
    """[frames, 2 * hidden] inputs: [frames, in], one sequence after the other. Written for one sentence, and
    vectorized over padded sentences."""
    return bilstm_padded(lstm, inputs, lengths, PADDED_TOGETHER, _layer)


def _layer(inputs: Tensor, weights: Sequence[Tensor]) -> Tensor:
    """[frames, batch, hidden] inputs: [frames, batch, in]"""
    return torch.func.vmap(partial(_states_of_one, weights), in_dims=1, out_dims=1)(inputs)


def _states_of_one(weights: Sequence[Tensor], vectors: Tensor) -> Tensor:
    """[frames, hidden] The states of one sentence. weights: those of the input, of the recurrence, and two
    biases, the second of which is zero; vectors: [frames, in]."""
    weight_in, weight, bias, _ = weights
    hidden = memory = vectors.new_zeros(weight.shape[1])
    states = []
    for of_input in F.linear(vectors, weight_in, bias).unbind():  # [4 * hidden]
        hidden, memory = lstm_cell(of_input, weight, hidden, memory)
        states.append(hidden)
    return torch.stack(states)
