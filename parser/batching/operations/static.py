"""A static structure, known in advance and run level by level (Suarez & Zhu 2017, section 3).

Nothing is recorded. The caller passes the applications of each template, and labels each application with a
level above the levels of all its dependencies. Applications of one template and level form one batch for each
operation of the template.
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
        """Add external values, numbered from `first`. rows: [values, width]"""
        self._give(first, rows)

    def schedule(self, calls: Sequence[Applications]) -> list[Step]:
        """The batches of all applications.

        Their `first` numbers their values, their `group` is their level.
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
