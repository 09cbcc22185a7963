"""Which tensors are on the simulated device. Views lie where their storage lies."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

FIRST_CLEANING = 4096


class Storages:
    """A set of storages that does not keep them."""

    def __init__(self) -> None:
        # By address. The reference tells a storage from a later one at the same address.
        self._references: dict[int, StorageWeakRef] = {}
        self._limit = FIRST_CLEANING

    def add(self, tensor: Tensor) -> Tensor:
        """Returns the tensor."""
        for part in _dense(tensor):
            storage = part.untyped_storage()
            self._references[storage._cdata] = StorageWeakRef(storage)
        if len(self._references) > self._limit:
            self._forget_the_dead()
        return tensor

    def discard(self, tensor: Tensor) -> None:
        for part in _dense(tensor):
            self._references.pop(part.untyped_storage()._cdata, None)

    def __contains__(self, tensor: Tensor) -> bool:
        return any(self._has(part) for part in _dense(tensor))

    def _has(self, tensor: Tensor) -> bool:
        reference = self._references.get(tensor.untyped_storage()._cdata)
        return reference is not None and not reference.expired()

    def _forget_the_dead(self) -> None:
        self._references = {
            address: reference for address, reference in self._references.items() if not reference.expired()
        }
        self._limit = max(FIRST_CLEANING, 2 * len(self._references))


def _dense(tensor: Tensor) -> list[Tensor]:
    """The parts of a tensor that have storages: of a sparse one its indices and values."""
    if tensor.device.type == "meta":
        return []
    if tensor.layout is torch.sparse_coo:
        return [tensor._indices(), tensor._values()]
    return [tensor] if tensor.layout is torch.strided else []
