"""The memory layout of values, and the rows that each batch reads and writes.

All values of one width are rows of one block, in the order of the schedule: the first outputs of all batches
come before the second outputs. An argument whose rows are contiguous and in order is used in place; any other
argument is gathered by one `index_select`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from parser.batching.device import to_device
from parser.batching.levels import Integers
from parser.batching.operations.batches import KindBatches
from parser.batching.operations.operation import Operation

Booleans = NDArray[np.bool_]


class Read(NamedTuple):
    """Rows of the block of values of one width."""

    width: int
    columns: slice
    start: int
    """The first row."""
    length: int
    rows: Integers
    """[length] The rows, on the host."""
    on_device: Tensor | None = None
    """[length] The rows; None if they are contiguous and in order."""

    @property
    def in_place(self) -> slice | None:
        """The rows, if they are contiguous and in order."""
        return slice(self.start, self.start + self.length) if self.on_device is None else None


class Step(NamedTuple):
    """A batch that is ready to run."""

    operation: Operation
    length: int
    inputs: list[Read]
    indices: Tensor | None
    """[length] The index of each operation, if operations of this kind take one."""
    outputs: list[tuple[int, int]]
    """The width and the first row of each output."""


def lay_out(
    by_kind: Sequence[KindBatches], row: Integers, used: dict[int, int], device: torch.device
) -> list[Step]:
    """Assign rows to all outputs, and find the rows of the arguments.

    row: [values], the row of each computed value; used: the number of rows in use, by width. Both are
    updated.
    """
    outputs = _give_rows(by_kind, row, used)
    inputs = [_inputs(own, row) for own in by_kind]
    integers = _on_device(by_kind, inputs, device)
    steps: dict[int, Step] = {}
    for own, written, read in zip(by_kind, outputs, inputs, strict=True):
        operation, nothing = own.kind.operation, [None] * len(own.numbers)
        columns = [_reads(part, nothing if part.in_place.all() else next(integers)) for part in read]
        indices = next(integers) if operation.has_index else nothing
        for place, (number, length) in enumerate(zip(own.numbers, own.sizes.tolist(), strict=True)):
            steps[number] = Step(
                operation,
                length,
                [column[place] for column in columns],
                indices[place],
                [(width, first[place]) for width, first in written],
            )
    return [steps[number] for number in range(len(steps))]


def _give_rows(
    by_kind: Sequence[KindBatches], row: Integers, used: dict[int, int]
) -> list[list[tuple[int, list[int]]]]:
    """Assign rows to outputs. Returns, for each kind and output, the width and the first row of each batch.

    Batches follow each other in the order of the schedule. The first outputs of all come before the second.
    """
    found: list[list[tuple[int, list[int]]]] = [[] for _ in by_kind]
    for place in range(max(len(own.kind.operation.outputs) for own in by_kind)):
        having = [number for number, own in enumerate(by_kind) if len(own.kind.operation.outputs) > place]
        for width in sorted({by_kind[number].kind.operation.outputs[place] for number in having}):
            owners = [n for n in having if by_kind[n].kind.operation.outputs[place] == width]
            starts = _starts([by_kind[number] for number in owners], used.get(width, 0))
            for number, first in zip(owners, starts, strict=True):
                own = by_kind[number]
                rows = (first - own.bounds[:-1]).repeat(own.sizes) + np.arange(len(own.first))
                row[own.first + place] = rows
                used[width] = max(used.get(width, 0), int(rows[-1]) + 1)
                found[number].append((width, first.tolist()))
    return found


def _starts(kinds: Sequence[KindBatches], start: int) -> list[Integers]:
    """Return the first row of each batch of each kind. start: the first row of the first batch scheduled."""
    numbers = np.concatenate([own.numbers for own in kinds])
    sizes = np.concatenate([own.sizes for own in kinds])
    order = numbers.argsort()
    found = np.empty_like(sizes)
    found[order] = start + sizes[order].cumsum() - sizes[order]
    return np.split(found, np.cumsum([len(own.numbers) for own in kinds])[:-1])


class _Input(NamedTuple):
    """An input of all batches of a kind: a pack of arguments."""

    width: int
    columns: slice
    rows: Integers
    """[operations * arguments of the pack] The rows of the arguments."""
    bounds: Integers
    """[batches + 1] The position in `rows` at which each batch starts, and the end of the last one."""
    in_place: Booleans
    """[batches] Whether the rows are contiguous and in order."""


def _inputs(own: KindBatches, row: Integers) -> list[_Input]:
    rows, (operation, widths) = row[own.arguments], own.kind
    found = []
    for pack in operation.packs(len(widths)):
        flat, bounds = rows[:, pack].ravel(), own.bounds * len(pack)
        breaks = np.zeros(len(flat), np.int64)
        (flat[1:] != flat[:-1] + 1).cumsum(out=breaks[1:])
        in_place = breaks[bounds[1:] - 1] == breaks[bounds[:-1]]
        found.append(_Input(widths[pack[0]], operation.columns, flat, bounds, in_place))
    return found


def _on_device(
    by_kind: Sequence[KindBatches], inputs: Sequence[Sequence[_Input]], device: torch.device
) -> Iterator[Sequence[Tensor]]:
    """Send the needed rows of each input, and the indices, by one transfer. Yields one tensor per batch."""
    parts = []
    for own, read in zip(by_kind, inputs, strict=True):
        parts += [(part.rows, part.bounds) for part in read if not part.in_place.all()]
        if own.kind.operation.has_index:
            parts.append((own.indices, own.bounds))
    if not parts:
        return iter(())
    flat = torch.from_numpy(np.concatenate([integers for integers, _ in parts]))
    sizes = [(bounds[1:] - bounds[:-1]).tolist() for _, bounds in parts]
    on_device = to_device(flat, device).split([sum(own) for own in sizes])
    return (integers.split(own) for integers, own in zip(on_device, sizes, strict=True))


def _reads(part: _Input, on_device: Sequence[Tensor | None]) -> list[Read]:
    """Return what each batch reads. on_device: the rows of each batch."""
    starts, stops = part.bounds[:-1], part.bounds[1:]
    return [
        Read(
            part.width, part.columns, first, stop - start, part.rows[start:stop], None if is_in_place else own
        )
        for first, start, stop, is_in_place, own in zip(
            part.rows[starts].tolist(),
            starts.tolist(),
            stops.tolist(),
            part.in_place.tolist(),
            on_device,
            strict=True,
        )
    ]
