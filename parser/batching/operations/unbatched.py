"""No batching: single operations, in the order in which they were recorded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat

import numpy as np
import torch
from torch import Tensor

from parser.batching.levels import Integers
from parser.batching.operations.layout import Applications, Read, Step
from parser.batching.transfer import to_device


def unbatched_steps(
    pending: Sequence[Applications], row: Integers, used: dict[int, int], device: torch.device
) -> list[Step]:
    """One step per operation. row, used: as for `Layout`; both are updated."""
    if not pending:
        return []
    order = np.concatenate([applications.first for applications in pending]).argsort()
    inside = _places(pending, order, used)
    for applications, rows in zip(pending, inside, strict=True):
        for place, result in enumerate(applications.template.results):
            row[applications.first + place] = rows[result]
    steps = [
        application
        for applications, rows in zip(pending, inside, strict=True)
        for application in _steps(applications, rows, row, device)
    ]
    return [step for place in order.tolist() for step in steps[place]]


def _places(pending: Sequence[Applications], order: Integers, used: dict[int, int]) -> list[Integers]:
    """The rows of each template's values, [values, applications]."""
    bounds = np.cumsum([len(applications.first) for applications in pending])[:-1]
    inside = [np.empty((len(p.template.widths), len(p.first)), np.int64) for p in pending]
    widths = {width for p in pending for width in p.template.widths[p.template.arguments :]}
    for width in widths:
        needed = np.concatenate([np.full(len(p.first), len(_computed(p, width))) for p in pending])
        start = np.empty_like(needed)
        start[order] = needed[order].cumsum() - needed[order] + used.get(width, 0)
        used[width] = used.get(width, 0) + int(needed.sum())
        for p, rows, first in zip(pending, inside, np.split(start, bounds), strict=True):
            for place, value in enumerate(_computed(p, width)):
                rows[value] = first + place
    return inside


def _computed(applications: Applications, width: int) -> list[int]:
    """The values of that width that the template's operations compute."""
    template = applications.template
    return [v for v in range(template.arguments, len(template.widths)) if template.widths[v] == width]


def _steps(
    applications: Applications, inside: Integers, row: Integers, device: torch.device
) -> list[tuple[Step, ...]]:
    """The steps of each application. inside: [values of the template, applications], their rows."""
    template, count = applications.template, len(applications.first)
    inside[: template.arguments] = row[applications.arguments].T
    columns = []
    for node in template.nodes:
        operation = node.operation
        packs = [[node.arguments[place] for place in pack] for pack in operation.packs(len(node.arguments))]
        reads = [_reads(template.widths[pack[0]], inside[pack], device) for pack in packs]
        inputs = map(list, zip(*reads, strict=True)) if reads else ([] for _ in range(count))
        indices: Iterable[Tensor | None] = repeat(None, count)
        if node.index is not None:
            indices = to_device(torch.from_numpy(applications.indices[:, node.index]), device).split(1)
        rows = inside[node.first : node.first + len(operation.outputs)].T.tolist()
        outputs = [list(zip(operation.outputs, places, strict=True)) for places in rows]
        columns.append([Step(operation, 1, *step) for step in zip(inputs, indices, outputs, strict=True)])
    return list(zip(*columns, strict=True))


def _reads(width: int, rows: Integers, device: torch.device) -> list[Read]:
    """One read per application. rows: [arguments of a pack, applications]"""
    if len(rows) == 1:
        return [Read(width, start, 1) for start in rows[0].tolist()]
    by_application = rows.T.copy()
    on_device = to_device(torch.from_numpy(by_application), device).unbind(0)
    return [Read(width, 0, len(rows), own) for own in on_device]
