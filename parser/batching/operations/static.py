"""A structure that is known in advance, level by level (Suarez & Zhu 2017, section 3), with nothing recorded.

Whoever knows the structure says which applications of which templates there are, and labels each with a
level above those of all that it depends on. Those of one template and level are one batch for each of its
operations.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from parser.batching.levels import batches
from parser.batching.operations.computation import Computation
from parser.batching.operations.layout import Applications, Layout, Part, Step
from parser.batching.operations.writer import Value


class StaticComputation(Computation):
    def __init__(self, device: torch.device, dtype: torch.dtype = torch.float32, gradients: bool = True):
        super().__init__(device, dtype, unbatched=False, gradients=gradients)

    def given(self, first: Value, rows: Tensor) -> None:
        """Values from that number on that were computed elsewhere. rows: [values, width]"""
        self._give(first, rows)

    def schedule(self, calls: Sequence[Applications]) -> list[Step]:
        """The batches of all applications of some templates, which number their values themselves.

        Their groups are their levels.
        """
        calls = [call for call in calls if len(call.first)]
        self._make_room(
            max((int(call.first.max()) + len(call.template.results) for call in calls), default=0)
        )
        level = np.concatenate([np.empty(0, np.int64), *(call.group for call in calls)])
        sizes = [len(call.group) for call in calls]
        place, start = np.repeat(np.arange(len(calls)), sizes), np.cumsum([0, *sizes])
        layout = Layout(self._row, self._used)
        for which in batches(level, place):
            number = int(place[which[0]])
            for node in calls[number].template.nodes:
                layout.add([Part(calls[number], node, which - start[number])])
        return layout.steps(self._device)
