"""PyTorch's LSTMs as CUDA runs them: one call of cuDNN, or one kernel for a cell.

cuDNN wants all weights of a call in one block of memory: first the input weight and the recurrent weight of
each layer and direction, and then the biases, in the same order.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd import Function

from simulated_cuda.counts import LIBRARY_LSTM
from simulated_cuda.operators import rounded

if TYPE_CHECKING:
    from simulated_cuda.device import SimulatedCuda

HOLE = object()
"""Placeholder for a tensor in arguments."""
NOT_ONE_BLOCK = (
    "RNN module weights are not part of single contiguous chunk of memory. This means they need to be "
    "compacted at every call, possibly greatly increasing memory usage. To compact weights again call "
    "flatten_parameters()."
)
"""PyTorch's own warning."""
FLOATS = frozenset((torch.half, torch.float32, torch.float64))
"""The data types of cuDNN's tensors."""


def is_acceptable(device: SimulatedCuda, tensor: Tensor) -> bool:
    """Like torch.backends.cudnn.is_acceptable: whether cuDNN takes the tensor."""
    return tensor in device.storages and tensor.dtype in FLOATS


def flatten_weights(device: SimulatedCuda, weights: Sequence[Tensor], *_: Any) -> None:
    """Like torch._cudnn_rnn_flatten_weight: move an LSTM's weights to a new block, in cuDNN's order."""
    ordered = _in_block_order(weights)
    with device.silent(), torch.no_grad():
        block = device.storages.add(torch.cat([weight.flatten() for weight in ordered]))
        for weight, part in zip(ordered, block.split([weight.numel() for weight in ordered]), strict=True):
            weight.data = part.view_as(weight)


def _in_block_order(weights: Sequence[Tensor]) -> list[Tensor]:
    """weights: for each layer and direction, the input weight, the recurrent weight and both biases."""
    return sorted(weights, key=lambda weight: weight.dim() == 1)


def _are_one_block(weights: Sequence[Tensor]) -> bool:
    """Whether cuDNN can read the weights where they are: from the start of their storage, without gaps."""
    address = weights[0].untyped_storage().data_ptr()
    for weight in _in_block_order(weights):
        if weight.data_ptr() != address:
            return False
        address += weight.nbytes
    return True


def lstm(device: SimulatedCuda, function: Callable[..., Any], args: Sequence[Any]) -> tuple[Tensor, ...]:
    """Like torch.lstm, with the arguments for a padded or a packed batch."""
    is_packed = isinstance(args[1], Tensor)
    if is_packed and args[1] in device.storages:
        raise RuntimeError("'batch_sizes' argument should be a 1D CPU int64 tensor")
    drop, is_training = args[6:8] if is_packed else args[5:7]
    tensors: list[Tensor] = []
    arguments = _without_tensors(tuple(args), tensors)

    def compute(*given: Tensor) -> tuple[Tensor, ...]:
        if torch.backends.cudnn.allow_tf32:
            given = tuple(rounded(tensor) for tensor in given)
        with _numbers_of_cudnn(device) if drop and is_training else nullcontext():
            return function(*_with_tensors(arguments, iter(given)))

    device.require(tensor for index, tensor in enumerate(tensors) if not (is_packed and index == 1))
    if not _are_one_block(args[3] if is_packed else args[2]):
        warnings.warn(NOT_ONE_BLOCK, stacklevel=2)
    device.count_call(LIBRARY_LSTM)
    return _Library.apply(device, compute, LIBRARY_LSTM if is_training else None, *tensors)


@contextmanager
def _numbers_of_cudnn(device: SimulatedCuda) -> Iterator[None]:
    """Draw random numbers from cuDNN's own dropout state, which no program can read or set.

    PyTorch seeds it once in a process, from its generator for the CPU.
    """
    if device.of_dropout is None:
        seed = int(torch.empty((), dtype=torch.int64).random_())
        device.of_dropout = torch.Generator().manual_seed(seed)
    of_device, device.generator = device.generator, device.of_dropout
    try:
        yield
    finally:
        device.generator = of_device


def lstm_cell(
    device: SimulatedCuda, inputs: Tensor, states: Sequence[Tensor], *weights: Tensor
) -> tuple[Tensor, ...]:
    """Like torch.lstm_cell: two products, and one kernel for the rest."""
    of_input, of_hidden, *biases = weights
    device.require([inputs, *states, *weights])
    gates = inputs @ of_input.T, states[0] @ of_hidden.T
    device.count_call("_thnn_fused_lstm_cell")
    return _Library.apply(device, _fused_cell, "_thnn_fused_lstm_cell_backward", *gates, states[1], *biases)


def _fused_cell(of_input: Tensor, of_hidden: Tensor, cell: Tensor, *biases: Tensor) -> tuple[Tensor, Tensor]:
    """of_input, of_hidden: [batch, 4 * hidden] products; cell: [batch, hidden]."""
    into, forget, new, out = sum(biases, of_input + of_hidden).chunk(4, 1)
    cell = forget.sigmoid() * cell + into.sigmoid() * new.tanh()
    return out.sigmoid() * cell.tanh(), cell


class _Library(Function):
    """A function that is computed uncounted. Its backward pass counts as an operator or a call of cuDNN.

    of_backward: the operator's name; None if there is no backward pass.
    """

    @staticmethod
    def forward(
        ctx: Any,
        device: SimulatedCuda,
        compute: Callable[..., Any],
        of_backward: str | None,
        *tensors: Tensor,
    ) -> tuple[Tensor, ...]:
        with device.silent():
            ctx.given = [tensor.detach().requires_grad_(tensor.requires_grad) for tensor in tensors]

        def run() -> list[Tensor]:
            with device.silent(), torch.enable_grad():
                ctx.results = compute(*ctx.given)
                return [result.detach().clone() for result in ctx.results]

        ctx.device, ctx.of_backward = device, of_backward
        results = run()
        if device.captured:
            device.captured.add(run, [], results)
        return tuple(map(device.storages.add, results))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        device = ctx.device
        if ctx.of_backward is None:
            raise RuntimeError("cudnn RNN backward can only be called in training mode")
        device.count_call(ctx.of_backward)
        wanted = [tensor for tensor in ctx.given if tensor.requires_grad]

        def run() -> tuple[Tensor | None, ...]:
            with device.silent():
                return torch.autograd.grad(ctx.results, wanted, gradients, allow_unused=True)

        computed = run()
        if device.captured:
            device.captured.add(run, [], computed)
        each = iter(computed)
        result = [next(each) if tensor.requires_grad else None for tensor in ctx.given]
        return (None, None, None, *(one if one is None else device.storages.add(one) for one in result))


def _without_tensors(value: Any, tensors: list[Tensor]) -> Any:
    if isinstance(value, Tensor):
        tensors.append(value)
        return HOLE
    if isinstance(value, (list, tuple)):
        return type(value)(_without_tensors(each, tensors) for each in value)
    return value


def _with_tensors(value: Any, tensors: Iterator[Tensor]) -> Any:
    if value is HOLE:
        return next(tensors)
    if isinstance(value, (list, tuple)):
        return type(value)(_with_tensors(each, tensors) for each in value)
    return value
