"""CUDA kernels: which operators have one, launch none or make the host wait; and kernels that a CPU lacks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
import torchgen
import yaml
from torch import Tensor
from torch._ops import OpOverload

OPERATORS = Path(torchgen.__file__).parent / "packaged/ATen/native/native_functions.yaml"
"""PyTorch's own list of its operators, with the devices that have a kernel."""
LAUNCHES_NOTHING = frozenset(
    (
        *(
            "empty",
            "empty_strided",
            "empty_like",
            "new_empty",
            "new_empty_strided",
            "resize_",
            "set_",
            "alias",
        ),
        *("_reshape_alias", "_unsafe_view", "detach_", "lift_fresh", "result_type", "is_same_size"),
        *("_local_scalar_dense", "item"),
    )
)
SYNCHRONIZES = frozenset(
    (
        *("_local_scalar_dense", "item", "is_nonzero", "equal", "nonzero", "masked_select", "bincount"),
        *("_unique", "_unique2", "unique_dim", "unique_consecutive"),
    )
)
"""Operators whose result, or its size, is needed by the host."""
INDEXES = frozenset(("index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index"))
NOT_DETERMINISTIC = frozenset(("cumsum", "cumprod", "put_", "histc", "median", "kthvalue"))
"""Operators that are refused in deterministic mode; see torch.use_deterministic_algorithms."""
MULTIPLIES = frozenset(("mm", "addmm", "addmm_", "bmm", "baddbmm"))
DROPPED_BITS = 13
"""The number of bits that TF32 drops from the 23 fraction bits of a float32 number."""


def name_of(operator: OpOverload) -> str:
    """The operator's name without namespace and overload."""
    return operator._schema.name.rpartition("::")[2]


@cache
def argument_names(operator: OpOverload) -> frozenset[str]:
    return frozenset(argument.name for argument in operator._schema.arguments)


@cache
def has_kernel(operator: OpOverload) -> bool:
    """Whether CUDA has a kernel for the operator, or it consists of operators that have one."""
    if operator.namespace != "aten":
        return operator.namespace in ("prims", "prim")
    overload = operator._schema.overload_name
    entry = _entries().get(f"{name_of(operator)}.{overload}" if overload else name_of(operator))
    if entry is None or "structured_delegate" in entry:  # generated from an operator that is listed
        return True
    dispatch = entry.get("dispatch")
    if dispatch is None:  # a composite one
        return True
    devices = [device.strip() for devices in dispatch for device in devices.split(",")]
    return any("CUDA" in device or device.startswith("Composite") for device in devices)


@cache
def _entries() -> dict[str, dict]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    with OPERATORS.open(encoding="utf-8") as file:
        return {entry["func"].partition("(")[0]: entry for entry in yaml.load(file, loader)}


def fused_cell(of_input: Tensor, of_hidden: Tensor, previous: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns hidden states, cell states and gates. of_input, of_hidden: [batch, 4 * hidden]; previous:
    [batch, hidden]."""
    if of_input.shape != of_hidden.shape or of_input.shape[1] != 4 * previous.shape[1]:
        raise RuntimeError("Expected the sizes of both gates, and of the cell state times 4, to be the same")
    into, forget, new, out = (of_input + of_hidden).chunk(4, 1)
    into, forget, new, out = into.sigmoid(), forget.sigmoid(), new.tanh(), out.sigmoid()
    cell = forget * previous + into * new
    return out * cell.tanh(), cell, torch.cat([into, forget, new, out], 1)


def fused_cell_backward(
    d_hidden: Tensor | None,
    d_cell: Tensor | None,
    previous: Tensor,
    cell: Tensor,
    active: Tensor,
    has_bias: bool,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Returns the gradients of gates, cell state and bias. All are [batch, hidden], except active:
    [batch, 4 * hidden]."""
    into, forget, new, out = active.chunk(4, 1)
    d_hidden = torch.zeros_like(cell) if d_hidden is None else d_hidden
    d_cell = torch.zeros_like(cell) if d_cell is None else d_cell
    through = d_hidden * out * (1 - cell.tanh() ** 2) + d_cell
    d_gates = torch.cat(
        [
            through * new * into * (1 - into),
            through * previous * forget * (1 - forget),
            through * into * (1 - new**2),
            d_hidden * cell.tanh() * out * (1 - out),
        ],
        1,
    )
    return d_gates, through * forget, d_gates.sum(0) if has_bias else None


def rounded(tensor: Tensor) -> Tensor:
    """The tensor rounded to TF32, with unrounded gradients; tensors of other data types are unchanged."""
    if tensor.dtype != torch.float32:
        return tensor
    exact = tensor.detach().contiguous()
    bits = exact.view(torch.int32) + (1 << (DROPPED_BITS - 1))
    difference = (bits >> DROPPED_BITS << DROPPED_BITS).view(torch.float32) - exact
    return tensor + difference.where(exact.isfinite(), 0)


def rounded_factors(name: str, args: Sequence[Any]) -> list[Any]:
    """The arguments of a matrix product, with its two factors rounded."""
    first = 1 if name.startswith(("addmm", "baddbmm")) else 0
    return [rounded(each) if first <= place < first + 2 else each for place, each in enumerate(args)]


FUSED_CELLS = {
    "_thnn_fused_lstm_cell": fused_cell,
    "_thnn_fused_lstm_cell_backward_impl": fused_cell_backward,
}
"""The operators of the fused LSTM cell, for which a CPU has no kernel."""
