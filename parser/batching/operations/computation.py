"""What is common to computations whose structure is recorded, and to those where it is known in advance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from parser.batching.levels import Integers
from parser.batching.operations.layout import Step
from parser.batching.operations.run import StepRunner
from parser.batching.operations.writer import Value


class Computation:
    """Values by their numbers, computed by running batches."""

    def __init__(self, device: torch.device, dtype: torch.dtype, unbatched: bool, gradients: bool):
        """unbatched: without any batching; parameters' gradients are added operation by operation, too."""
        self._device = device
        self._runner = StepRunner(device, dtype, unbatched, gradients)
        self._row: Integers = np.empty(0, np.int64)  # of each value
        self._used: dict[int, int] = {}  # rows of each width

    def run(self, steps: Sequence[Step]) -> None:
        """Run batches in the order in which `schedule` gave them."""
        self._runner.forward(steps, self._used)

    def backward(self, values: Sequence[Value], gradient: Tensor | None = None) -> list[Tensor]:
        """Add to the parameters' `.grad` what flows back from some values, which are computed.

        gradient: [values, width] of a loss at these values; None for losses, of width 1, that are summed.
        Goes back through all that was computed, and may be called once: what it needs is gone afterwards.
        Returns the loss's gradients at what was given, as it was given. Raises ValueError.
        """
        if gradient is None:
            gradient = torch.ones(len(values), 1, device=self._device)
        return self._runner.backward(self._row[np.asarray(values, np.int64)], gradient)

    def rows(self, values: Sequence[Value], width: int) -> Tensor:
        """[values, width] A copy of values that are computed, all of that width."""
        return self._runner.rows(width, self._row[np.asarray(values, np.int64)])

    def _give(self, first: Value, rows: Tensor) -> None:
        """Values from that number on. rows: [values, width]"""
        count, width = rows.shape
        start = self._used.get(width, 0)
        self._used[width] = start + count
        self._make_room(first + count)
        self._row[first : first + count] = np.arange(start, start + count)
        self._runner.give(start, rows)

    def _make_room(self, values: int) -> None:
        """For so many values in all."""
        self._row = np.concatenate([self._row, np.empty(max(0, values - len(self._row)), np.int64)])
