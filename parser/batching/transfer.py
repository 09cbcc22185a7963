"""Asynchronous transfers to the device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Generic, TypeVar

import torch
from torch import Tensor

ALIGNMENT = 16
"""Bytes; a tensor of any data type may begin at a multiple of it."""
T_co = TypeVar("T_co", covariant=True)
Mapped = Callable[[Callable[[Tensor], Tensor]], T_co]
"""A copy of an object that has tensors, with a function applied to each of them, in a fixed order."""


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """A copy on the device, without host synchronisation; the tensor itself if it is already there."""
    if device.type == "cuda" and tensor.device.type == "cpu":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def all_to_device(mapped: Mapped[T_co], device: torch.device) -> T_co:
    """The object with its tensors on the device: of those on the host a copy, by one upload."""
    if device.type == "cuda":
        return Packed(mapped).to(device)
    return mapped(lambda tensor: tensor.to(device))


class Packed(Generic[T_co]):
    """An object whose tensors on the host were copied to one pinned buffer, so that one upload moves all."""

    def __init__(self, mapped: Mapped[T_co]):
        self._mapped, self._tensors = mapped, _tensors(mapped)
        sizes = [tensor.nbytes if _is_on_host(tensor) else 0 for tensor in self._tensors]
        ends = list(accumulate(-(-size // ALIGNMENT) * ALIGNMENT for size in sizes))
        self._starts = [0, *ends]
        self._buffer = torch.empty(self._starts[-1], dtype=torch.uint8, pin_memory=True)
        for tensor, place in zip(self._tensors, self._parts(self._buffer), strict=True):
            if place is not tensor:
                place.copy_(tensor)

    def to(self, device: torch.device) -> T_co:
        """Without host synchronisation."""
        moved = self._parts(self._buffer.to(device, non_blocking=True))
        return self._mapped(lambda tensor: next(moved))

    def _parts(self, buffer: Tensor) -> Iterator[Tensor]:
        """The places of all tensors in a buffer of bytes; those on a device stay themselves."""
        for tensor, start in zip(self._tensors, self._starts, strict=False):
            if _is_on_host(tensor):
                yield buffer[start : start + tensor.nbytes].view(tensor.dtype).view(tensor.shape)
            else:
                yield tensor


def _is_on_host(tensor: Tensor) -> bool:
    return tensor.device.type == "cpu"


def _tensors(mapped: Mapped[T_co]) -> list[Tensor]:
    found: list[Tensor] = []

    def note(tensor: Tensor) -> Tensor:
        found.append(tensor)
        return tensor

    mapped(note)
    return found
