"""The memory layout of values, and the rows that each batch reads and writes.

All values of one width are rows of one block, and a batch writes contiguous rows. An argument whose rows are
contiguous and in order is used in place; any other is gathered by one `index_select`. Without batching, each
step is a single operation, in the order in which they were recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from parser.batching.device import to_device
from parser.batching.levels import Integers
from parser.batching.operations.operation import Operation
from parser.batching.operations.template import Template, TemplateNode


@dataclass(frozen=True, eq=False)
class Applications:
    """The applications of one template that are to be computed."""

    template: Template
    first: Integers
    """[applications] The number of the first result of each."""
    arguments: Integers
    """[applications, arguments] The numbers of the argument values."""
    indices: Integers
    """[applications, indices]"""
    group: Integers
    """[applications] The pattern of each; or its level in a static structure."""

    @cached_property
    def columns(self) -> list[Integers]:
        """The arguments, then the indices, as contiguous columns [applications]."""
        return [*self.arguments.T.copy(), *self.indices.T.copy()]


class BatchPart(NamedTuple):
    """One node of a template, for some of the applications: a batch or a part of one."""

    applications: Applications
    node: TemplateNode
    which: Integers
    """[rows] Positions in `applications`."""


class Read(NamedTuple):
    """Rows of the block of a width: `length` rows from `start` on, or those in `on_device` if it is given."""

    width: int
    start: int
    length: int
    on_device: Tensor | None = None
    rows: Integers | None = None
    """The same on the host, to find out which rows are read once; not with the method `none`."""


class Step(NamedTuple):
    """A batch that is ready to run."""

    operation: Operation
    length: int
    inputs: list[Read]
    indices: Tensor | None
    outputs: list[tuple[int, int]]
    """The width and the first row of each output."""


class _Planned(NamedTuple):
    """A `Step` before its integers are on the device; they are given as positions in `Layout._integers`."""

    operation: Operation
    length: int
    inputs: list[tuple[Read, int | None]]
    indices: int | None
    outputs: list[tuple[int, int]]


class Layout:
    """Assigns rows to batches, in the order in which they will run."""

    def __init__(self, row: Integers, used: dict[int, int]):
        """row: [values], the row of each computed value; used: the number of rows in use, by width.

        Both are updated.
        """
        self._row, self._used = row, used
        self._inside: dict[Applications, Integers] = {}
        self._integers: list[Integers] = []
        self._planned: list[_Planned] = []

    def add(self, parts: Sequence[BatchPart]) -> None:
        """Append a batch whose arguments all have rows."""
        node = parts[0].node
        inputs = [self._read(parts, pack) for pack in node.operation.packs(len(node.arguments))]
        indices = None
        if node.index is not None:
            indices = self._keep(concatenate_integers([_indices(part, node.index) for part in parts]))
        count = sum(len(part.which) for part in parts)
        self._planned.append(_Planned(node.operation, count, inputs, indices, self._write(parts, count)))

    def steps(self, device: torch.device) -> list[Step]:
        """The batches. Their integers are sent to the device in one transfer."""
        sizes = [len(integers) for integers in self._integers]
        flat = torch.from_numpy(np.concatenate(self._integers)) if sizes else torch.empty(0, dtype=torch.long)
        on_device = to_device(flat, device).split(sizes)
        return [
            Step(
                plan.operation,
                plan.length,
                [
                    read if kept is None else read._replace(on_device=on_device[kept])
                    for read, kept in plan.inputs
                ],
                None if plan.indices is None else on_device[plan.indices],
                plan.outputs,
            )
            for plan in self._planned
        ]

    def _read(self, parts: Sequence[BatchPart], pack: Sequence[int]) -> tuple[Read, int | None]:
        """What is read, and the position of its rows among the kept integers (None if read in place)."""
        rows = concatenate_integers([self._rows_of(part, pack) for part in parts])
        width = parts[0].applications.template.widths[parts[0].node.arguments[pack[0]]]
        first = int(rows[0])
        in_place = rows[-1] - first == len(rows) - 1 and bool((np.diff(rows) == 1).all())
        if in_place:
            return Read(width, first, len(rows)), None
        return Read(width, first, len(rows), rows=rows), self._keep(rows)

    def _rows_of(self, part: BatchPart, pack: Sequence[int]) -> Integers:
        """[rows * arguments of the pack] The rows of the arguments."""
        applications, which = part.applications, part.which
        columns = []
        for place in pack:
            local = part.node.arguments[place]
            if local < applications.template.arguments:
                columns.append(self._row.take(applications.columns[local].take(which)))
            else:
                columns.append(self._inside[applications][local].take(which))
        return columns[0] if len(columns) == 1 else np.stack(columns, 1).ravel()

    def _write(self, parts: Sequence[BatchPart], count: int) -> list[tuple[int, int]]:
        """The width and the first row of each output of the batch."""
        outputs = []
        for place, width in enumerate(parts[0].node.operation.outputs):
            start = self._used.get(width, 0)
            outputs.append((width, start))
            self._used[width] = start + count
            for part in parts:
                stop = start + len(part.which)
                self._remember(part, part.node.first + place, np.arange(start, stop))
                start = stop
        return outputs

    def _remember(self, part: BatchPart, local: int, rows: Integers) -> None:
        """Store the rows [rows of the part] of the template's value `local`."""
        applications, template = part.applications, part.applications.template
        if len(template.nodes) > 1:
            if applications not in self._inside:
                self._inside[applications] = np.empty(
                    (len(template.widths), len(applications.first)), np.int64
                )
            self._inside[applications][local][part.which] = rows
        if local in template.results:
            self._row[applications.first.take(part.which) + template.results.index(local)] = rows

    def _keep(self, integers: Integers) -> int:
        self._integers.append(integers)
        return len(self._integers) - 1


def _indices(part: BatchPart, index: int) -> Integers:
    """[rows] index: the position among the template's indices."""
    applications = part.applications
    return applications.columns[applications.template.arguments + index].take(part.which)


def concatenate_integers(arrays: Sequence[Integers]) -> Integers:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


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
