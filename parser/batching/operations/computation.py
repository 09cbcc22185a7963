"""Common to computations whose structure is recorded and those whose structure is known in advance."""

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
    """Values, identified by numbers and computed in batches."""

    def __init__(self, device: torch.device, dtype: torch.dtype, unbatched: bool, gradients: bool):
        """unbatched: run single operations, and accumulate the parameters' gradients after each.

        gradients: keep what `backward` needs.
        """
        self._device = device
        self._runner = StepRunner(device, dtype, unbatched, gradients)
        self._row: Integers = np.empty(0, np.int64)  # [values] the row of each value
        self._used: dict[int, int] = {}  # number of rows in use, by width

    def run(self, steps: Sequence[Step]) -> None:
        """Run the batches of `schedule`, in that order."""
        self._runner.forward(steps, self._used)

    def backward(self, values: Sequence[Value], gradient: Tensor | None = None) -> list[Tensor]:
        """Backpropagate from computed values, and add to the parameters' `.grad`.

        gradient: [values, width], of the loss with respect to these values; None if the values are losses, of
        width 1, to be summed. Can be called once, because it frees what the forward pass has saved. Returns
        the gradients with respect to the tensors that were given. Raises ValueError.
        """
        if gradient is None:
            gradient = torch.ones(len(values), 1, device=self._device)
        return self._runner.backward(self._row[np.asarray(values, np.int64)], gradient)

    def rows(self, values: Sequence[Value], width: int) -> Tensor:
        """[values, width] A copy of computed values, all of the same width."""
        return self._runner.rows(width, self._row[np.asarray(values, np.int64)])

    def _give(self, first: Value, rows: Tensor) -> None:
        """Add external values, numbered from `first`. rows: [values, width]"""
        count, width = rows.shape
        start = self._used.get(width, 0)
        self._used[width] = start + count
        self._make_room(first + count)
        self._row[first : first + count] = np.arange(start, start + count)
        self._runner.give(start, rows)

    def _make_room(self, values: int) -> None:
        """For at least this number of values in total."""
        self._row = np.concatenate([self._row, np.empty(max(0, values - len(self._row)), np.int64)])
