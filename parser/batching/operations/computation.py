"""What is common to computations whose structure is recorded, and to those where it is known in advance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from parser.batching.operations.layout import Integers, Step
from parser.batching.operations.run import Runner
from parser.batching.operations.writer import Value


class Computation:
    """Values by their numbers, computed by running batches."""

    def __init__(self, device: torch.device, dtype: torch.dtype, alone: bool, gradients: bool):
        """alone: without any batching; parameters' gradients are added operation by operation, too."""
        self._device = device
        self._runner = Runner(device, dtype, alone, gradients)
        self._row: Integers = np.empty(0, np.int64)  # of each value
        self._used: dict[int, int] = {}  # rows of each width

    def run(self, steps: Sequence[Step]) -> None:
        """Run batches in the order in which `schedule` gave them."""
        self._runner.forward(steps, self._used)

    def backward(self, losses: Sequence[Value]) -> None:
        """Add to the parameters' `.grad` those of the sum of some values of width 1, which are computed.

        Goes back through all that was computed, and may be called once: what it needs is gone afterwards.
        Raises ValueError.
        """
        self._runner.backward(self._row[np.asarray(losses, np.int64)])

    def rows(self, values: Sequence[Value], width: int) -> Tensor:
        """[values, width] A copy of values that are computed, all of that width."""
        return self._runner.rows(width, self._row[np.asarray(values, np.int64)])

    def _make_room(self, values: int) -> None:
        """For so many values in all."""
        self._row = np.concatenate([self._row, np.empty(max(0, values - len(self._row)), np.int64)])
