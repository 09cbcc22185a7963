"""A structure that is known in advance, level by level (Suarez & Zhu 2017, section 3), with nothing recorded.

Whoever knows the structure says which applications of which templates there are, and labels each with a
level above those of all that it depends on. Those of one template and level are one batch for each of its
operations.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from parser.batching.operations.computation import Computation
from parser.batching.operations.layout import Applications, Layout, Part, Step, grouped


class KnownComputation(Computation):
    def __init__(self, device: torch.device, dtype: torch.dtype = torch.float32):
        super().__init__(device, dtype, alone=False, gradients=True)

    def schedule(self, calls: Sequence[Applications]) -> list[Step]:
        """The batches of all applications of some templates, which number their values themselves.

        They have their levels in the place of patterns.
        """
        calls = [call for call in calls if len(call.first)]
        self._make_room(
            max((int(call.first.max()) + len(call.template.results) for call in calls), default=0)
        )
        levels = [
            (level, place, which)
            for place, call in enumerate(calls)
            for level, which in grouped(call.pattern)
        ]
        levels.sort(key=lambda found: found[:2])
        layout = Layout(self._row, self._used)
        for _, place, which in levels:
            for node in calls[place].template.nodes:
                layout.add([Part(calls[place], node, which)])
        return layout.steps(self._device)
