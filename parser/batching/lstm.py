"""LSTM cells, unfused and fused, without gradients, and PyTorch's own LSTM in the precision of the process.

The cell is that of Hochreiter & Schmidhuber 1997 with forget gates. With the gates in torch's order:
i, f, o = sigmoid, g = tanh;  c = f * previous c + i * g;  h = o * tanh(c).
`d_x` is the gradient of the loss with respect to x.

- On AMD processors torch's tanh is about ten times slower than its sigmoid, so it is computed there as 2
  sigmoid(2x) - 1. On other processors both are equally fast.
- The fused cell is PyTorch's: on CUDA it is one kernel, and the unfused cell needs ten. Its operators are
  private, so at first use their results are compared with those of the unfused cell. They are not used if
  they are missing or if the results differ.
- In bfloat16 on a CPU, the states inside PyTorch's LSTM are bfloat16, too. On a GPU, PyTorch would run
  cuDNN's LSTM in float16, whose range is too small for gradients; there it uses factors of TF32 instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn.utils.rnn import PackedSequence

from parser.batching.functional import (
    add_product,
    dropout,
    present_precision,
    times_transposed,
    write_product,
)
from parser.system.console import warn
from parser.system.machine import AMD, processor

MINUS_ONE = torch.tensor(-1.0)
SIGMOID_BACKWARD = torch.ops.aten.sigmoid_backward.grad_input
TANH_BACKWARD = torch.ops.aten.tanh_backward.grad_input
"""Takes the gradient and the activated tensor, and writes the result to `grad_input`."""
FUSED_OPERATOR = "_thnn_fused_lstm_cell"
TOLERANCES = {torch.float32: 1e-5, torch.float64: 1e-12}
"""The tolerance for results of the fused cell, by data type. Other data types are unsupported."""


def tanh_is_slow(tensor: Tensor) -> bool:
    return tensor.is_cpu and processor().vendor == AMD


def write_tanh(tensor: Tensor, out: Tensor) -> None:
    """Write the tanh of a tensor to `out`, which can be the tensor itself."""
    if tanh_is_slow(tensor):
        twice_less_one_(torch.add(tensor, tensor, out=out).sigmoid_())
    else:
        torch.tanh(tensor, out=out)


def tanh(tensor: Tensor) -> Tensor:
    return twice_less_one_((tensor * 2).sigmoid_()) if tanh_is_slow(tensor) else tensor.tanh()


def twice_less_one_(tensor: Tensor) -> Tensor:
    """Compute 2 * tensor - 1 in place and in one pass, for a tensor on the CPU."""
    return torch.add(MINUS_ONE, tensor, alpha=2, out=tensor)


class FusedCell(NamedTuple):
    """The result of a step. hidden, cell: [rows, hidden]; active: [rows, 4 * hidden], the activated gates."""

    hidden: Tensor
    cell: Tensor
    active: Tensor


def fused_cell(of_input: Tensor, of_hidden: Tensor, previous_cell: Tensor) -> FusedCell:
    """Run one step by the fused operator.

    of_input, of_hidden: [rows, 4 * hidden], whose sum is the gates; previous_cell: [rows, hidden].
    """
    return FusedCell(*getattr(torch.ops.aten, FUSED_OPERATOR)(of_input, of_hidden, previous_cell))


def fused_cell_backward(
    d_hidden: Tensor | None, d_cell: Tensor | None, previous_cell: Tensor, cell: Tensor, active: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the gradients of the gates [rows, 4 * hidden] and of the previous cell state [rows, hidden].

    active: [rows, 4 * hidden], see `FusedCell`; all other arguments: [rows, hidden]. None stands for zeros.
    """
    backward = getattr(torch.ops.aten, f"{FUSED_OPERATOR}_backward_impl")
    d_gates, d_previous, _ = backward(d_hidden, d_cell, previous_cell, cell, active, False)
    return d_gates, d_previous


def has_fused_cell(gates: Tensor) -> bool:
    """Whether the fused cell can be used for tensors like `gates`."""
    return gates.is_cuda and gates.dtype in TOLERANCES and _agrees(gates.device, gates.dtype)


@cache
@torch.inference_mode(False)
@torch.enable_grad()
def _agrees(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether the fused cell computes the same as the unfused cell. The host waits for the answer."""
    rows, hidden = 3, 5
    sizes = [4 * hidden, 4 * hidden, hidden, hidden, hidden]
    numbers = torch.linspace(-2, 2, rows * sum(sizes), device=device, dtype=dtype).sin().view(rows, -1)
    of_input, of_hidden, previous, d_hidden, d_cell = numbers.split(sizes, dim=1)
    try:
        fused = fused_cell(of_input, of_hidden, previous)
        backward = fused_cell_backward(d_hidden, d_cell, previous, fused.cell, fused.active)
    except (AttributeError, RuntimeError) as error:
        if FUSED_OPERATOR not in str(error):  # another error, such as a lack of memory
            raise
        return False
    gates, before = (of_input + of_hidden).requires_grad_(), previous.clone().requires_grad_()
    into, forget, new, out = gates.chunk(4, dim=1)
    cell = forget.sigmoid() * before + into.sigmoid() * new.tanh()
    unfused = out.sigmoid() * cell.tanh(), cell
    expected = *unfused, *torch.autograd.grad(unfused, (gates, before), (d_hidden, d_cell))
    fused_results = fused.hidden, fused.cell, *backward
    agrees = all(
        torch.allclose(one, other, rtol=TOLERANCES[dtype], atol=TOLERANCES[dtype])
        for one, other in zip(fused_results, expected, strict=True)
    )
    if not agrees:
        warn("PyTorch's fused LSTM cell differs from the unfused one, and is not used")
    return agrees


def lstm_cell(of_input: Tensor, of_hidden: Tensor, previous_cell: Tensor) -> tuple[Tensor, Tensor]:
    """Return the hidden and the cell state, each [batch, hidden].

    of_input, of_hidden: [batch, 4 * hidden], whose sum is the gates before their activations;
    previous_cell: [batch, hidden].
    """
    function = _FusedCellFunction if has_fused_cell(of_input) else _UnfusedCellFunction
    return function.apply(of_input, of_hidden, previous_cell)


def activate_(gates: Tensor, hidden: int, cell_gate: int = 2) -> None:
    """Apply tanh to the cell gate and sigmoid to the other gates, in place.

    gates: [batch, gates * hidden]; cell_gate: its position among the gates.
    """
    before, cell, after = _split(gates, hidden, cell_gate)
    if tanh_is_slow(gates):
        cell *= 2
        gates.sigmoid_()
        twice_less_one_(cell)
        return
    for gate in (before, after):
        gate.sigmoid_()
    cell.tanh_()


def activation_backward_(gradient: Tensor, active: Tensor, hidden: int, cell_gate: int = 2) -> Tensor:
    """Turn the gradient of activated gates into the gradient before the activations, in place.

    gradient: [batch, gates * hidden]; active: [batch, gates * hidden], the activated gates;
    cell_gate: see `activate_`.
    """
    pairs = zip(_split(gradient, hidden, cell_gate), _split(active, hidden, cell_gate), strict=True)
    backwards = (SIGMOID_BACKWARD, TANH_BACKWARD, SIGMOID_BACKWARD)
    for (d_gate, gate), backward in zip(pairs, backwards, strict=True):
        backward(d_gate, gate, grad_input=d_gate)
    return gradient


def _split(gates: Tensor, hidden: int, cell_gate: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gates before the cell gate, the cell gate, and the gates after it."""
    start, stop = cell_gate * hidden, (cell_gate + 1) * hidden
    return gates[:, :start], gates[:, start:stop], gates[:, stop:]


def cell_state_gradient(d_hidden: Tensor, output_gate: Tensor, tanh_cell: Tensor, d_cell: Tensor) -> Tensor:
    """Return the full gradient of the cell state: the part through h = o * tanh(c), and the direct part.

    All tensors are [batch, hidden]. tanh_cell: tanh of the cell state; d_cell: the direct part.
    """
    return torch.addcmul(d_cell, torch.ops.aten.tanh_backward(d_hidden, tanh_cell), output_gate)


class _UnfusedCellFunction(Function):
    @staticmethod
    def forward(
        ctx: Any, of_input: Tensor, of_hidden: Tensor, previous_cell: Tensor
    ) -> tuple[Tensor, Tensor]:
        active = of_input + of_hidden
        activate_(active, previous_cell.shape[1])
        input_gate, forget_gate, cell_gate, output_gate = active.chunk(4, dim=1)
        cell = torch.addcmul(forget_gate * previous_cell, input_gate, cell_gate)
        tanh_cell = tanh(cell)
        ctx.save_for_backward(active, previous_cell, tanh_cell)
        return output_gate * tanh_cell, cell

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_hidden: Tensor, d_cell: Tensor) -> tuple[Tensor, ...]:
        active, previous_cell, tanh_cell = ctx.saved_tensors
        input_gate, forget_gate, cell_gate, output_gate = active.chunk(4, dim=1)
        d_cell = cell_state_gradient(d_hidden, output_gate, tanh_cell, d_cell)
        d_gates = torch.cat(
            [d_cell * cell_gate, d_cell * previous_cell, d_cell * input_gate, d_hidden * tanh_cell], dim=1
        )
        activation_backward_(d_gates, active, previous_cell.shape[1])
        return d_gates, d_gates, d_cell * forget_gate


class _FusedCellFunction(Function):
    @staticmethod
    def forward(
        ctx: Any, of_input: Tensor, of_hidden: Tensor, previous_cell: Tensor
    ) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        hidden, cell, active = fused_cell(of_input, of_hidden, previous_cell)
        ctx.save_for_backward(previous_cell, cell, active)
        return hidden, cell

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_hidden: Tensor | None, d_cell: Tensor | None) -> tuple[Tensor, ...]:
        d_gates, d_previous_cell = fused_cell_backward(d_hidden, d_cell, *ctx.saved_tensors)
        return d_gates, d_gates, d_previous_cell


States: TypeAlias = tuple[Tensor, Tensor]
"""Hidden and cell states."""


def outputs_of(lstm: nn.LSTM, inputs: Tensor | PackedSequence) -> Tensor:
    """Return the hidden states of the top layer, starting from zero states.

    The result is [frames, batch, hidden] for inputs [frames, batch, input], and [rows, hidden] for packed
    inputs.
    """
    data = inputs.data if isinstance(inputs, PackedSequence) else inputs
    with layers_precision(data):
        outputs, _ = lstm(inputs)
    top = outputs.data if isinstance(outputs, PackedSequence) else outputs
    return top.to(data.dtype)


def run_layer(inputs: Tensor, weights: Sequence[Tensor]) -> Tensor:
    """Run one layer of `torch.lstm` in one direction, from zero states. Returns [frames, batch, hidden].

    inputs: [frames, batch, input]; weights: the input weights, the recurrent weights, and both biases.
    """
    states = inputs.new_zeros(1, inputs.shape[1], weights[1].shape[1])
    with layers_precision(inputs):
        outputs, _, _ = torch.lstm(inputs, (states, states), list(weights), True, 1, 0.0, True, False, False)
    return outputs.to(inputs.dtype)


def run_cell(inputs: Tensor, states: States, weights: Sequence[Tensor]) -> States:
    """Return the states after a frame, by `torch.lstm_cell`.

    inputs: [batch, input]; states: [batch, hidden] each; weights: see `run_layer`.
    """
    with layers_precision(inputs):
        hidden, cell = torch.lstm_cell(inputs, states, *weights)
    return hidden.to(inputs.dtype), cell.to(inputs.dtype)


def layers_precision(inputs: Tensor) -> AbstractContextManager[object]:
    """A context in which PyTorch's own recurrent layers compute in the precision of the process."""
    on_cpu = inputs.device.type == "cpu" and inputs.dtype == torch.float32
    if on_cpu and present_precision() == "bfloat16":
        return torch.autocast("cpu", torch.bfloat16)
    return nullcontext()


class LSTMStates(NamedTuple):
    """The states of all layers, side by side. Both tensors are [rows, layers * hidden]."""

    hidden: Tensor
    cell: Tensor

    def between(self, start: int, stop: int) -> LSTMStates:
        """Return a view of some rows."""
        return LSTMStates(self.hidden[start:stop], self.cell[start:stop])


def input_parameters(lstm: nn.LSTM, layer: int) -> tuple[Tensor, Tensor]:
    """Return the input weight [4 * hidden, input] and the sum of both biases [4 * hidden] of a layer."""
    bias = getattr(lstm, f"bias_ih_l{layer}") + getattr(lstm, f"bias_hh_l{layer}")
    return getattr(lstm, f"weight_ih_l{layer}"), bias


def recurrent_weight(lstm: nn.LSTM, layer: int) -> Tensor:
    """[4 * hidden, hidden] The recurrent weight of a layer."""
    return getattr(lstm, f"weight_hh_l{layer}")


class InferenceLSTM:
    def __init__(self, lstm: nn.LSTM):
        self._size = lstm.hidden_size
        layers = range(lstm.num_layers)
        self._inputs = [input_parameters(lstm, layer) for layer in layers]
        self._recurrent = [recurrent_weight(lstm, layer) for layer in layers]

    def project(self, inputs: Tensor) -> Tensor:
        """[rows, 4 * hidden] The part of the lowest layer's gates that depends on inputs [rows, input]."""
        return times_transposed(inputs, *self._inputs[0])

    def write_projection(self, inputs: Tensor, out: Tensor) -> None:
        """Like `project`, but write the result to `out` [rows, 4 * hidden]."""
        write_product(out, inputs, *self._inputs[0])

    def output(self, states: LSTMStates) -> Tensor:
        """[rows, hidden] The hidden states of the top layer."""
        return states.hidden[:, -self._size :]

    def zeros(self, rows: int) -> LSTMStates:
        """Return the states before the first input."""
        weight = self._recurrent[0]
        return LSTMStates(*weight.new_zeros(2, rows, len(self._recurrent) * self._size))

    def advance(self, gates: Tensor, previous: LSTMStates, states: LSTMStates) -> None:
        """Compute the next states.

        gates: [rows, 4 * hidden], see `project`; they are overwritten. states: the next states are written
        here; can be the same object as `previous`.
        """
        layers = zip(
            self._inputs,
            self._recurrent,
            *(part.split(self._size, dim=1) for part in (*previous, *states)),
            strict=True,
        )
        below = None
        for of_input, recurrent, previous_hidden, previous_cell, hidden, cell in layers:
            if below is not None:
                gates = times_transposed(below, *of_input)
            add_product(gates, previous_hidden, recurrent)
            _write_states(gates, previous_cell, hidden, cell)
            below = hidden


def _write_states(gates: Tensor, previous_cell: Tensor, hidden: Tensor, cell: Tensor) -> None:
    """Write the states after a step to `hidden` and `cell`. The gates are overwritten.

    gates: [rows, 4 * hidden], in torch's order, before their activations; all others: [rows, hidden].
    """
    activate_(gates, hidden.shape[1])
    input_gate, forget_gate, cell_gate, output_gate = gates.chunk(4, dim=1)
    torch.mul(forget_gate, previous_cell, out=cell)
    cell.addcmul_(input_gate, cell_gate)
    write_tanh(cell, out=hidden)
    hidden.mul_(output_gate)


def lstm_with_dropout(
    inputs: int, hidden: int, layers: int, dropout: float, bidirectional: bool = False
) -> nn.LSTM:
    """Create an LSTM. hidden: size of each direction. dropout: between the layers."""
    if layers == 1 or not dropout:
        return nn.LSTM(inputs, hidden, layers, bidirectional=bidirectional)
    return LayeredLSTM(inputs, hidden, layers, dropout=dropout, bidirectional=bidirectional)


class LayeredLSTM(nn.LSTM):
    """Like `torch.nn.LSTM` with biases, but each layer is one call of `torch.lstm`, and dropout is ours.

    In one call for several layers, cuDNN draws the dropout from a random state of its own, which can neither
    be saved nor set, so a resumed training would go on with other numbers.
    """

    def flatten_parameters(self) -> None:
        """Move the weights of each layer to a block of memory, which cuDNN needs for each call."""
        for number in range(self.num_layers):
            weights = self._layer(number)
            single = nn.LSTM(
                weights[0].shape[1], self.hidden_size, bidirectional=self.bidirectional, device="meta"
            )
            for name, weight in zip(dict(single.named_parameters()), weights, strict=True):
                setattr(single, name, weight)
            single.flatten_parameters()

    def forward(  # type: ignore[override]
        self, input: Tensor | PackedSequence, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor | PackedSequence, tuple[Tensor, Tensor]]:
        """Return the hidden states of the top layer, and the last states of all layers.

        input: [frames, batch, input], or packed from the longest to the shortest sequence. hx: the hidden and
        the cell states before, [layers * directions, batch, hidden] each; None for zeros. A single sequence
        may lack the dimension of the batch. Raises ValueError for packed sequences in another order.
        """
        if isinstance(input, Tensor) and input.dim() == 2:
            outputs, last = self(input[:, None], hx and (hx[0][:, None], hx[1][:, None]))
            return outputs[:, 0], (last[0][:, 0], last[1][:, 0])
        if isinstance(input, PackedSequence) and input.unsorted_indices is not None:
            raise ValueError("packed sequences must be sorted from the longest to the shortest")
        data, batch_sizes = (input, None) if isinstance(input, Tensor) else input[:2]
        batch = data.shape[1] if batch_sizes is None else int(batch_sizes[0])
        directions = 1 + self.bidirectional
        zeros = data.new_zeros(directions, batch, self.hidden_size)
        states_of_layers = []
        for number in range(self.num_layers):
            if number:
                data = dropout(data, self.dropout, self.training)
            of_layer = slice(directions * number, directions * (number + 1))
            before = (hx[0][of_layer], hx[1][of_layer]) if hx else (zeros, zeros)
            how = self._layer(number), True, 1, 0.0, self.training, self.bidirectional
            if batch_sizes is None:
                data, *states = torch.lstm(data, before, *how, False)
            else:
                data, *states = torch.lstm(data, batch_sizes, before, *how)
            states_of_layers.append(states)
        hidden, cell = map(torch.cat, zip(*states_of_layers, strict=True))
        return data if batch_sizes is None else PackedSequence(data, batch_sizes), (hidden, cell)

    def _layer(self, number: int) -> list[Tensor]:
        """The weights of a layer in PyTorch's order, both directions one after the other."""
        directions = 1 + self.bidirectional
        return list(chain(*self.all_weights[directions * number : directions * (number + 1)]))
