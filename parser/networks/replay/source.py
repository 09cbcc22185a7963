"""Where the batches of a device are made: there, if it has room for all examples, else on the host."""

from __future__ import annotations

from contextlib import suppress

import torch
from torch import Tensor

from parser.batching.device import Packed, one_memory_error
from parser.batching.ragged import group_size
from parser.networks.replay.batch import Batch
from parser.networks.replay.examples import Examples
from parser.networks.replay.making import Selection, made
from parser.networks.replay.shapes import Shape
from parser.system.machine import device_memory

MOST_MEMORY = 1 / 8
"""The largest share of a GPU's memory that examples may take. English EWT takes 50 MB."""


class BatchSource:
    """Makes batches of examples on a device.

    A batch takes two steps, so that the first can be done ahead in a thread: `prepared` does the work of the
    host, and `made` that of the device.
    """

    def __init__(self, examples: Examples, device: torch.device):
        self.examples, self.device = examples, device
        self._there: Examples | None = None
        if device.type == "cuda" and examples.nbytes <= MOST_MEMORY * device_memory(device):
            with suppress(torch.OutOfMemoryError), one_memory_error():  # other programs may use the memory
                self._there = examples.to(device)

    def shape(self, rows: Tensor) -> Shape:
        """The shape of the batch of the sentences `rows` [batch], without padding to a common shape."""
        return self.examples.shape(rows)

    def prepared(
        self, rows: Tensor, shape: Shape, common: Shape | None = None
    ) -> Packed[Selection] | Packed[Batch]:
        """What is to be uploaded for a batch of the sentences `rows` [batch]. shape, common: see
        `Examples.select`."""
        selection = self.examples.select(rows, shape, common)
        return Packed(made(self.examples, selection)) if self._there is None else Packed(selection)

    def made(self, uploaded: Selection | Batch) -> Batch:
        """The batch on the device, without waiting. uploaded: the content of `prepared`, on the device."""
        if isinstance(uploaded, Batch):
            return uploaded
        assert self._there is not None
        return made(self._there, uploaded)

    def batch(self, rows: Tensor) -> Batch:
        """A batch of the sentences `rows` [batch] on the device."""
        if self._there is None:
            return self.examples.batch(rows, group_size(self.device)).to(self.device)
        return made(self._there, self.examples.select(rows, self.shape(rows)).to(self.device))
