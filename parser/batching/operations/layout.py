"""The memory layout of values, and the rows that each batch reads and writes.

All values of one width are rows of one block, in the order of the schedule: the first outputs of all batches
come before the second outputs. An argument whose rows are contiguous and in order is used in place; any other
argument is gathered by one `index_select`.

Any order of operations within batches is correct. In the order of their readers, most batches read contiguous
rows: step n + 1 of a recurrence reads the first rows that step n has written, because the sequences that end
at step n are the last rows of step n.
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
from parser.batching.operations.operation import Operation
from parser.batching.operations.pending import COMPUTED, Pending
from parser.batching.operations.schedules import Batches, KindBatches
from parser.batching.operations.template import Origin

UNREAD = np.iinfo(np.int64).max
"""Replaces the reader of a value that only the caller reads."""

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
    inputs = [_inputs(batches, row) for batches in by_kind]
    integers = _on_device(by_kind, inputs, device)
    steps: dict[int, Step] = {}
    for batches, written, its_inputs in zip(by_kind, outputs, inputs, strict=True):
        operation, nothing = batches.kind.operation, [None] * len(batches.numbers)
        columns = [_reads(part, nothing if part.in_place.all() else next(integers)) for part in its_inputs]
        indices = next(integers) if operation.has_index else nothing
        for batch, (number, length) in enumerate(zip(batches.numbers, batches.sizes.tolist(), strict=True)):
            steps[number] = Step(
                operation,
                length,
                [column[batch] for column in columns],
                indices[batch],
                [(width, first[batch]) for width, first in written],
            )
    return [steps[number] for number in range(len(steps))]


def _give_rows(
    by_kind: Sequence[KindBatches], row: Integers, used: dict[int, int]
) -> list[list[tuple[int, list[int]]]]:
    """Assign rows to outputs. Returns, for each kind and output, the width and the first row of each batch.

    Batches follow each other in the order of the schedule. The first outputs of all come before the second.
    """
    rows_of_outputs: list[list[tuple[int, list[int]]]] = [[] for _ in by_kind]
    widths = [batches.kind.operation.outputs for batches in by_kind]
    for output in range(max(map(len, widths))):
        having = [number for number, its_widths in enumerate(widths) if len(its_widths) > output]
        for width in sorted({widths[number][output] for number in having}):
            owners = [number for number in having if widths[number][output] == width]
            # The first row of each batch of these kinds, in the order of the schedule.
            order = np.concatenate([by_kind[number].numbers for number in owners]).argsort()
            sizes = np.concatenate([by_kind[number].sizes for number in owners])
            starts = np.empty_like(sizes)
            starts[order] = used.get(width, 0) + sizes[order].cumsum() - sizes[order]
            ends = np.cumsum([len(by_kind[number].numbers) for number in owners])
            for number, first in zip(owners, np.split(starts, ends[:-1]), strict=True):
                batches = by_kind[number]
                rows = (first - batches.bounds[:-1]).repeat(batches.sizes) + np.arange(len(batches.first))
                row[batches.first + output] = rows
                used[width] = max(used.get(width, 0), int(rows[-1]) + 1)
                rows_of_outputs[number].append((width, first.tolist()))
    return rows_of_outputs


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


def _inputs(batches: KindBatches, row: Integers) -> list[_Input]:
    rows, (operation, widths) = row[batches.arguments], batches.kind
    inputs = []
    for pack in operation.packs(len(widths)):
        flat, bounds = rows[:, pack].ravel(), batches.bounds * len(pack)
        breaks = np.zeros(len(flat), np.int64)
        (flat[1:] != flat[:-1] + 1).cumsum(out=breaks[1:])
        in_place = breaks[bounds[1:] - 1] == breaks[bounds[:-1]]
        inputs.append(_Input(widths[pack[0]], operation.columns, flat, bounds, in_place))
    return inputs


def _on_device(
    by_kind: Sequence[KindBatches], inputs: Sequence[Sequence[_Input]], device: torch.device
) -> Iterator[Sequence[Tensor]]:
    """Send the needed rows of each input, and the indices, by one transfer. Yields one tensor per batch."""
    parts = []
    for batches, its_inputs in zip(by_kind, inputs, strict=True):
        parts += [(part.rows, part.bounds) for part in its_inputs if not part.in_place.all()]
        if batches.kind.operation.has_index:
            parts.append((batches.indices, batches.bounds))
    if not parts:
        return iter(())
    flat = torch.from_numpy(np.concatenate([integers for integers, _ in parts]))
    sizes = [(bounds[1:] - bounds[:-1]).tolist() for _, bounds in parts]
    on_device = to_device(flat, device).split([sum(of_batches) for of_batches in sizes])
    return (integers.split(of_batches) for integers, of_batches in zip(on_device, sizes, strict=True))


def _reads(part: _Input, on_device: Sequence[Tensor | None]) -> list[Read]:
    """Return what each batch reads. on_device: the rows of each batch."""
    starts, stops = part.bounds[:-1], part.bounds[1:]
    return [
        Read(
            part.width,
            part.columns,
            first,
            stop - start,
            part.rows[start:stop],
            None if is_in_place else rows,
        )
        for first, start, stop, is_in_place, rows in zip(
            part.rows[starts].tolist(),
            starts.tolist(),
            stops.tolist(),
            part.in_place.tolist(),
            on_device,
            strict=True,
        )
    ]


def in_order_of_readers(batches: Batches, pending: Pending) -> Batches:
    """Return the same batches, each in the order in which later batches first read its values.

    In a batch that is read, operations of one origin stay together. A batch whose values only the caller
    reads is in the order of the values that the batch itself reads first.
    """
    order, bounds, reader = batches.order.copy(), batches.bounds.tolist(), np.full(len(pending) + 1, UNREAD)
    starts, givers, origin = pending.argument_starts, pending.givers, pending.origin
    ordered = origin[batches.order]
    lowest, highest = (extreme.reduceat(ordered, batches.bounds[:-1]) for extreme in (np.minimum, np.maximum))
    are_mixed, unread = (lowest != highest).tolist(), []  # of each batch: whether it has several origins
    reads = [_Reads.of(kind) for kind in pending.kinds.all]
    most = max(len(of_kind.before) for of_kind in reads)
    for number in reversed(range(len(are_mixed))):
        start, stop = bounds[number : number + 2]
        batch = order[start:stop]
        its_reader = reader[batch]
        if its_reader[0] == UNREAD and its_reader.min() == UNREAD:
            unread.append((start, stop))
        by_reader = its_reader.argsort(kind="stable")
        batch = batch[_together(by_reader, origin[batch]) if are_mixed[number] else by_reader]
        order[start:stop] = batch
        its_reads = reads[pending.kind[batch[0]]]
        its_givers = givers[starts[batch][:, None] + np.arange(len(its_reads.before))]  # [batch, arguments]
        reader[its_givers] = start * most + its_reads.of_batch(
            len(batch)
        )  # the last element is for `COMPUTED`
    position = np.empty_like(reader)
    position[order] = np.arange(len(order))
    position[COMPUTED] = COMPUTED
    for start, stop in unread:
        batch = order[start:stop]
        if len(reads[pending.kind[batch[0]]].before):
            order[start:stop] = batch[position[givers[starts[batch]]].argsort(kind="stable")]
    return Batches(order, batches.bounds)


def _together(order: Integers, origin: Integers) -> Integers:
    """Return the order with equal origins together, each at the position of its first operation.

    origin: [batch], in the original order.
    """
    ordered, position = origin[order], np.arange(len(order))
    first = np.empty(int(origin.max()) + 1, np.int64)
    first[ordered[::-1]] = position[::-1]
    return order[(first[ordered] * len(order) + position).argsort()]


class _Reads(NamedTuple):
    """The order in which batches of one kind read: pack by pack, and within a pack operation by operation."""

    before: Integers
    """[arguments] The number of arguments in the packs before the argument's pack."""
    size: Integers
    """[arguments] The number of arguments in the argument's pack."""
    position: Integers
    """[arguments] The position of the argument within its pack."""

    @classmethod
    def of(cls, kind: Origin) -> _Reads:
        count, start = len(kind.widths), 0
        before, size, position = np.zeros((3, count), np.int64)
        for pack in map(list, kind.operation.packs(count)):
            before[pack], size[pack], position[pack] = start, len(pack), np.arange(len(pack))
            start += len(pack)
        return cls(before, size, position)

    def of_batch(self, rows: int) -> Integers:
        """[rows, arguments] The position of each read in this order."""
        return np.arange(rows)[:, None] * self.size + self.position + rows * self.before
