"""The work of an operator: what it reads, writes and computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils.flop_counter import flop_registry

from simulated_cuda.kernels import name_of

READS_ROWS = frozenset(("index_select", "gather", "index", "embedding"))
"""Operators that read only as much of their first argument as they write."""
WRITES_ROWS = frozenset(
    ("index_add_", "index_copy_", "index_put_", "_index_put_impl_", "index_fill_", "scatter_")
)
"""Operators that change their first argument only at the places given by the other arguments."""
EXPONENTIAL = frozenset(("sigmoid", "sigmoid_", "tanh", "tanh_", "exp", "exp_", "logsumexp"))
PRODUCTS = frozenset(("mm", "addmm", "addmm_", "bmm", "_linear_pointwise"))
LSTM_LAYERS = {"mkldnn_rnn_layer": 1, "mkldnn_rnn_layer_backward": 2}
"""The operators of a CPU's LSTM, with their products for each product of the forward pass."""


class OperatorCall(NamedTuple):
    name: str
    is_backward: bool
    bytes: int
    operations: float
    """Floating-point operations of matrix products."""
    frames: int = 0
    """The number of consecutive steps in a library's LSTM."""
    launches: int = 1
    """Kernels that the host launches for the operator."""
    shortest: int = 0
    """The shortest side of a matrix product; 0 for other operators."""
    transcendental: int = 0
    """The number of elements for which an exponential is computed."""


def call_of(
    operator: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any
) -> OperatorCall:
    name = name_of(operator)
    given, made = tensors_in([args, list(kwargs.values())]), tensors_in(result)
    if name in READS_ROWS:
        read = [*given[1:], *made]
    elif name in WRITES_ROWS:
        made = given[-1:]
        read = [*given[1:], *made]
    else:
        read = given
    # Expanded dimensions are read from the cache.
    total = sum(min(tensor.nbytes, tensor.untyped_storage().nbytes()) for tensor in (*read, *made))
    return OperatorCall(
        name,
        in_backward(),
        total,
        _operations(operator, args, kwargs, result),
        shortest=_shortest(name, given),
        transcendental=tensors_in(result)[0].numel() if name in EXPONENTIAL else 0,
    )


def _shortest(name: str, given: Sequence[Tensor]) -> int:
    if name in PRODUCTS:
        left, right = given[:2] if name in ("mm", "bmm", "_linear_pointwise") else given[1:3]
        return min(*left.shape[-2:], *right.shape[-2:])
    if name in LSTM_LAYERS:
        return given[0].shape[1]  # frames come one after the other
    return 0


def in_backward() -> bool:
    """Whether autograd is running."""
    return torch._C._current_graph_task_id() != -1


def _operations(operator: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> float:
    name, packet = name_of(operator), operator._overloadpacket
    if packet in flop_registry:
        return float(flop_registry[packet](*args, **kwargs, out_val=result))
    if name == "addmm_":
        return 2.0 * args[1].numel() * args[2].shape[1]
    if name == "_linear_pointwise":
        return 2.0 * args[0].numel() * len(args[1])
    if name in LSTM_LAYERS:
        inputs, *weights = args[:3]
        rows = inputs.numel() // inputs.shape[-1]
        return 2.0 * LSTM_LAYERS[name] * rows * sum(weight.numel() for weight in weights)
    return 0.0


def tensors_in(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for each in value for tensor in tensors_in(each)]
    return []
