"""A mode that handles every operator below autograd as a CUDA device would.

It knows which operators have a kernel, launch none or make the host wait, and computes those for which a CPU
has no kernel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torchgen
import yaml
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode

if TYPE_CHECKING:
    from simulated_cuda.device import SimulatedCuda

OPERATORS = Path(torchgen.__file__).parent / "packaged/ATen/native/native_functions.yaml"
"""PyTorch's own list of its operators, with the devices that have a kernel."""
LAUNCHES_NOTHING = frozenset(
    (
        *("empty", "empty_strided", "empty_like", "new_empty", "new_empty_strided", "resize_", "set_"),
        *("alias", "_reshape_alias", "_unsafe_view", "detach_", "lift_fresh", "result_type", "is_same_size"),
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
CONVERTS = frozenset({"_to_copy", "copy_"})
JOINS = frozenset({"cat", "stack"})
HAS_LENGTHS_ON_HOST = frozenset({"_pack_padded_sequence", "_pad_packed_sequence"})
"""Operators whose second argument and second result are lengths of sequences, on the host."""


class Operators(TorchDispatchMode):
    """Refuses what CUDA refuses, counts the rest, and keeps results on the device."""

    def __init__(self, device: SimulatedCuda):
        super().__init__()
        self._device = device

    def __torch_dispatch__(
        self,
        operator: OpOverload,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        device, kwargs = self._device, dict(kwargs or {})
        tensors = tensors_in([args, list(kwargs.values())])
        on_device = [tensor in device.storages for tensor in tensors]
        if not any(on_device) and (tensors or not device.is_creating):
            return operator(*args, **kwargs)
        name = name_of(operator)
        if not device.is_silent:
            if name not in CONVERTS | HAS_LENGTHS_ON_HOST:
                self._check(operator, args, tensors, on_device)
            self._count_synchronizations(operator, args, kwargs, tensors)
        if "generator" in operator._overloadpacket.overloads() and not tensors:
            operator = operator._overloadpacket.generator  # without it, numbers would be those of the CPU
        if "generator" in argument_names(operator):
            _refuse_generator_of_cpu(kwargs, device.generator)
            if device.generator_is_capturing and not (device.captured or device.is_silent):
                raise RuntimeError("Offset increment outside graph capture encountered unexpectedly.")
            kwargs["generator"] = device.generator
        graph = None if device.is_silent else device.captured
        if graph:
            with device.silent():
                graph.keep(operator, args, kwargs)
        result = computed(operator, args, kwargs)
        if graph:
            graph.add(partial(_computed_again, operator, args, kwargs), tensors, result)
        results = tensors_in(result)
        if name != "copy_":
            for each in results[:1] if name in HAS_LENGTHS_ON_HOST else results:
                device.storages.add(each)
        if not (device.is_silent or operator.is_view or name in LAUNCHES_NOTHING):
            device.count_call(name)
        return result

    def _check(
        self, operator: OpOverload, args: Sequence[Any], tensors: Sequence[Tensor], on_device: Sequence[bool]
    ) -> None:
        """Raises the errors that PyTorch raises on CUDA."""
        name = name_of(operator)
        indices = tensors_in(args[1]) if name in INDEXES else []
        for tensor, is_there in zip(tensors, on_device, strict=True):
            # Numbers, and indices from any device, are copied.
            is_number = tensor.dim() == 0 and name not in JOINS
            if not (is_there or is_number or any(tensor is index for index in indices)):
                shapes = ", ".join(
                    f"{tuple(each.shape)} on {'cuda:0' if there else 'cpu'}"
                    for each, there in zip(tensors, on_device, strict=True)
                )
                raise RuntimeError(f"{operator}: expected all tensors to be on the same device: {shapes}")
        depends_on_chance = name in NOT_DETERMINISTIC and tensors[0].is_floating_point()
        if depends_on_chance and torch.are_deterministic_algorithms_enabled():
            raise RuntimeError(f"{operator} does not have a deterministic implementation")
        if not has_kernel(operator):
            raise NotImplementedError(f"{operator} has no CUDA kernel")
        if name in MULTIPLIES and not tensors[0].is_floating_point():
            raise NotImplementedError(f"{operator} has no CUDA kernel for {tensors[0].dtype}")

    def _count_synchronizations(
        self, operator: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any], tensors: Sequence[Tensor]
    ) -> None:
        device, name = self._device, name_of(operator)
        if name == "copy_":
            to_device, from_device = (tensor in device.storages for tensor in tensors[:2])
            if to_device and not from_device:
                non_blocking = args[2] if len(args) > 2 else kwargs.get("non_blocking", False)
                device.count_upload(tensors[1], non_blocking)
            elif from_device and not to_device:
                device.count_synchronization("copy_ to the host")
        elif name in SYNCHRONIZES:
            device.count_synchronization(name)
        elif name == "repeat_interleave" and kwargs.get("output_size") is None:
            device.count_synchronization("repeat_interleave without output_size")
        elif name in INDEXES:
            indices = tensors_in(args[1])
            if any(index.dtype in (torch.bool, torch.uint8) for index in indices):
                device.count_synchronization("boolean index")
            if any(index not in device.storages for index in indices):
                device.count_synchronization("index on the host")


def _refuse_generator_of_cpu(kwargs: Mapping[str, Any], of_device: torch.Generator) -> None:
    if kwargs.get("generator") not in (None, of_device):
        raise RuntimeError("Expected a 'cuda' device type for generator but found 'cpu'")


def _computed_again(operator: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Compute from the same tensors with new values. Autograd would take this for a change of its graph."""
    with torch._C._AutoDispatchBelowAutograd():
        return computed(operator, args, kwargs)


def computed(operator: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    if operator is torch.ops.aten.mm.dtype:  # exists only for CUDA
        left, right, dtype = args
        return left.to(dtype) @ right.to(dtype)
    if name_of(operator) in FUSED_CELLS:
        return FUSED_CELLS[name_of(operator)](*args, **kwargs)
    if name_of(operator) in MULTIPLIES and torch.get_float32_matmul_precision() != "highest":
        args = rounded_factors(name_of(operator), args)
    return operator(*args, **kwargs)


def tensors_in(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for each in value for tensor in tensors_in(each)]
    return []


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
    return [rounded(each) if first <= index < first + 2 else each for index, each in enumerate(args)]


FUSED_CELLS = {
    "_thnn_fused_lstm_cell": fused_cell,
    "_thnn_fused_lstm_cell_backward_impl": fused_cell_backward,
}
"""The operators of the fused LSTM cell, for which a CPU has no kernel."""
