"""Asynchronous transfers to the device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Generic, Protocol, TypeVar

import torch
from torch import Tensor

ALIGNMENT = 16
"""Bytes; a tensor of any data type may begin at a multiple of it."""
Moved = TypeVar("Moved", bound="HasTensors")


class HasTensors(Protocol):
    def map(self: Moved, function: Callable[[Tensor], Tensor]) -> Moved:
        """A copy with a function applied to each tensor that a device needs, in a fixed order."""


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """A copy on the device, without host synchronisation; the tensor itself if it is already there."""
    if device.type == "cuda" and tensor.device.type == "cpu":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def all_to_device(whole: Moved, device: torch.device) -> Moved:
    """The object with its tensors on the device: of those on the host a copy, by one upload."""
    if device.type == "cuda":
        return Packed(whole).to(device)
    return whole.map(lambda tensor: tensor.to(device))


class Packed(Generic[Moved]):
    """A copy of an object, its tensors on the host in one pinned buffer, so that one upload moves all."""

    def __init__(self, whole: Moved):
        tensors = _tensors(whole)
        sizes = [tensor.nbytes if _is_on_host(tensor) else 0 for tensor in tensors]
        ends = list(accumulate(-(-size // ALIGNMENT) * ALIGNMENT for size in sizes))
        self._starts = [0, *ends]
        self.buffer = torch.empty(self._starts[-1], dtype=torch.uint8, pin_memory=True)
        """[bytes]"""
        places = _parts(self.buffer, tensors, self._starts)

        def packed(tensor: Tensor) -> Tensor:
            place = next(places)
            return tensor if place is tensor else place.copy_(tensor)

        self._whole = whole.map(packed)

    def to(self, device: torch.device) -> Moved:
        """Without host synchronisation."""
        return self.within(self.buffer.to(device, non_blocking=True))

    def within(self, uploaded: Tensor) -> Moved:
        """The object with its tensors in a copy of `buffer`."""
        moved = _parts(uploaded, _tensors(self._whole), self._starts)
        return self._whole.map(lambda tensor: next(moved))


def _tensors(whole: HasTensors) -> list[Tensor]:
    found: list[Tensor] = []

    def note(tensor: Tensor) -> Tensor:
        found.append(tensor)
        return tensor

    whole.map(note)
    return found


def _parts(buffer: Tensor, tensors: Sequence[Tensor], starts: Sequence[int]) -> Iterator[Tensor]:
    """The places of tensors in a buffer of bytes; those on a device stay themselves."""
    for tensor, start in zip(tensors, starts, strict=False):
        if _is_on_host(tensor):
            yield buffer[start : start + tensor.nbytes].view(tensor.dtype).view(tensor.shape)
        else:
            yield tensor


def _is_on_host(tensor: Tensor) -> bool:
    return tensor.device.type == "cpu"
