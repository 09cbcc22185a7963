"""A mode that handles every operator below autograd as a CUDA device would."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode

from simulated_cuda.kernels import (
    FUSED_CELLS,
    INDEXES,
    LAUNCHES_NOTHING,
    MULTIPLIES,
    NOT_DETERMINISTIC,
    SYNCHRONIZES,
    argument_names,
    has_kernel,
    name_of,
    rounded_factors,
)
from simulated_cuda.work import call_of, tensors_in

if TYPE_CHECKING:
    from simulated_cuda.device import SimulatedCuda

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
            if graph is None:
                device.counts.operators[name] += 1
            device.record(partial(call_of, operator, args, kwargs, result))
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
