"""Where values lie in memory, and which rows each batch reads.

All values of one width are rows of one block. A batch writes rows one after the other, so an argument that
was written in the order in which it is read is used in place; any other is gathered by one `index_select`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from parser.batching.levels import Integers
from parser.batching.operations.operation import Operation
from parser.batching.operations.template import Template, TemplateNode
from parser.batching.transfer import to_device


@dataclass(frozen=True, eq=False)
class Applications:
    """Of one template, those that are to be computed."""

    template: Template
    first: Integers
    """[applications] The number of the first of the values that each gives."""
    arguments: Integers
    """[applications, arguments] The numbers of the values that each is given."""
    indices: Integers
    """[applications, indices]"""
    group: Integers
    """[applications] The number of its pattern; or its level, where that is known in advance."""

    @cached_property
    def columns(self) -> list[Integers]:
        """The arguments, and then the indices, each [applications] in one piece."""
        return [*self.arguments.T.copy(), *self.indices.T.copy()]


class Part(NamedTuple):
    """A node of a template in some of its applications: a batch, or a part of one."""

    applications: Applications
    node: TemplateNode
    which: Integers
    """[rows] places in `applications`."""


class Read(NamedTuple):
    """Rows of the block of a width: so many from `start` on, or if there are `rows`, those."""

    width: int
    start: int
    length: int
    rows: Tensor | None = None


class Step(NamedTuple):
    """A batch, ready to run."""

    operation: Operation
    length: int
    inputs: list[Read]
    indices: Tensor | None
    outputs: list[tuple[int, int]]
    """Width, and the first of its rows."""


class _Planned(NamedTuple):
    """A `Step` whose integers, by their places among those kept, are still to be sent to the device."""

    operation: Operation
    length: int
    inputs: list[tuple[Read, int | None]]
    indices: int | None
    outputs: list[tuple[int, int]]


class Layout:
    """Gives batches their rows, in the order in which they will run."""

    def __init__(self, row: Integers, used: dict[int, int]):
        """row: [values] where each value lies, if it is computed, else anything; used: rows of each width.

        Both are brought up to date.
        """
        self._row, self._used = row, used
        self._inside: dict[Applications, Integers] = {}
        self._integers: list[Integers] = []
        self._planned: list[_Planned] = []

    def add(self, parts: Sequence[Part]) -> None:
        """A batch, all of whose arguments are computed or have their rows already."""
        node = parts[0].node
        inputs = [self._read(parts, pack) for pack in node.operation.packs(len(node.arguments))]
        indices = None
        if node.index is not None:
            indices = self._keep(joined([_indices(part, node.index) for part in parts]))
        count = sum(len(part.which) for part in parts)
        self._planned.append(_Planned(node.operation, count, inputs, indices, self._write(parts, count)))

    def steps(self, device: torch.device) -> list[Step]:
        """The batches, their integers sent to the device in one piece."""
        sizes = [len(integers) for integers in self._integers]
        flat = torch.from_numpy(np.concatenate(self._integers)) if sizes else torch.empty(0, dtype=torch.long)
        pieces = to_device(flat, device).split(sizes)
        return [
            Step(
                plan.operation,
                plan.length,
                [read if kept is None else read._replace(rows=pieces[kept]) for read, kept in plan.inputs],
                None if plan.indices is None else pieces[plan.indices],
                plan.outputs,
            )
            for plan in self._planned
        ]

    def _read(self, parts: Sequence[Part], pack: Sequence[int]) -> tuple[Read, int | None]:
        """What is read, and the place of its rows among the integers that are kept, if they are."""
        rows = joined([self._rows_of(part, pack) for part in parts])
        width = parts[0].applications.template.widths[parts[0].node.arguments[pack[0]]]
        first = int(rows[0])
        in_place = rows[-1] - first == len(rows) - 1 and bool((np.diff(rows) == 1).all())
        return Read(width, first, len(rows)), None if in_place else self._keep(rows)

    def _rows_of(self, part: Part, pack: Sequence[int]) -> Integers:
        """[rows * arguments of the pack] Where they lie."""
        applications, which = part.applications, part.which
        columns = []
        for place in pack:
            local = part.node.arguments[place]
            if local < applications.template.arguments:
                columns.append(self._row.take(applications.columns[local].take(which)))
            else:
                columns.append(self._inside[applications][local].take(which))
        return columns[0] if len(columns) == 1 else np.stack(columns, 1).ravel()

    def _write(self, parts: Sequence[Part], count: int) -> list[tuple[int, int]]:
        """Widths and first rows of what the batch gives."""
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

    def _remember(self, part: Part, local: int, rows: Integers) -> None:
        """rows: [rows of the part], where a value of the template lies."""
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


def _indices(part: Part, index: int) -> Integers:
    """[rows] index: which of those of the template."""
    applications = part.applications
    return applications.columns[applications.template.arguments + index].take(part.which)


def joined(arrays: Sequence[Integers]) -> Integers:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
