"""An LSTM in plain PyTorch, as it is written if there is no layer for it.

All sequences that have not ended take a step together, without padding. The longest sequences come first, so
the sequences of a step are the first ones of the previous step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from parser.batching.device import to_device
from parser.networks.bilstm import DIRECTIONS, weights_of

States: TypeAlias = tuple[Tensor, Tensor]
"""Hidden and cell state."""
Cell: TypeAlias = Callable[[Tensor, Tensor, Tensor, Tensor], States]
"""A function like `lstm_cell`."""
Project: TypeAlias = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Maps inputs [frames, in], a weight and a bias to [frames, out]."""


class _Steps(NamedTuple):
    """The frames of some sequences in the order in which one direction reads them."""

    order: Tensor
    """[frames] The frames of the first step, then those of the second, and so on."""
    position: Tensor
    """[frames] The place of each frame in `order`."""
    sizes: list[int]
    """[steps] The number of sequences in each step."""


def _steps_of(lengths: Sequence[int], device: torch.device) -> tuple[_Steps, _Steps]:
    """The steps from the first frames to the last, and those from the last to the first."""
    own = torch.tensor(lengths)
    longest_first = own.argsort(descending=True, stable=True)
    start, own = (own.cumsum(0) - own)[longest_first], own[longest_first]
    step = torch.arange(int(own.max()))[:, None]
    exists = step < own  # [steps, sequences]
    sizes = exists.sum(1).tolist()
    orders = ((start + step)[exists], (start + own - 1 - step)[exists])
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
