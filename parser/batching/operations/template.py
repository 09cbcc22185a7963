"""Templates: computations that are traced once and applied many times, each application a compact record.

A `Writer` records operations, either in a graph or while a template is traced. Templates can contain other
templates: a template for a sentence of five words consists of five applications of the template for a word.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import NamedTuple, NoReturn

import numpy as np

from parser.batching.levels import Integers
from parser.batching.operations.operation import Operation, check_operation
from parser.batching.operations.writer import Index, Value, Values, Writer, numbers_of


@dataclass(frozen=True, eq=False)
class Template:
    """A traced computation.

    widths: the widths of all values; arguments, indices: the numbers of values and integers that an
    application takes.

    >>> template = Template.trace(lambda writer, state, word: writer.tanh(state + word), widths=(2, 2))
    >>> graph = Graph("agenda", "cpu")
    >>> state, *words = graph.add_values(torch.zeros(4, 2))
    >>> for word in words:
    ...     (state,) = graph.apply(template, (state, word))
    >>> len(graph.schedule())
    6
    """

    widths: tuple[int, ...]
    arguments: int
    indices: int
    wiring: Wiring
    results: tuple[int, ...]
    """The values that an application returns; all are outputs of operations."""

    def __post_init__(self) -> None:
        """Raises ValueError for values without elements."""
        if 0 in self.widths:
            raise ValueError(f"a value has at least one element, but the widths are {list(self.widths)}")

    @cached_property
    def nodes(self) -> tuple[TemplateNode, ...]:
        """The operations of the template."""
        return nodes_of(self.wiring, self.arguments)

    @cached_property
    def taken(self) -> tuple[int, ...]:
        """The widths of the arguments."""
        return self.widths[: self.arguments]

    @cached_property
    def computed_widths(self) -> array[int]:
        """The widths of the values that the operations compute."""
        return array("q", self.widths[self.arguments :])

    @cached_property
    def result_offsets(self) -> tuple[int, ...]:
        """The positions of the results, counted from the first value that is computed."""
        return tuple(result - self.arguments for result in self.results)

    @cached_property
    def argument_widths(self) -> Integers:
        """[arguments] The widths of the arguments."""
        return np.array(self.taken, np.int64)

    @cached_property
    def index_bounds(self) -> tuple[int, ...]:
        """The upper bound (exclusive) of each index."""
        return tuple(bound for bound, _ in self._index_limits)

    @cached_property
    def _index_limits(self) -> list[tuple[int, str]]:
        """The upper bound (exclusive) of each index, and the name of the operation that sets it."""
        limits = [(sys.maxsize, "the template")] * self.indices
        for node in self.nodes:
            bound = node.operation.index_bound
            if node.index is not None and bound is not None:
                limits[node.index] = min(limits[node.index], (bound, node.operation.name))
        return limits

    def check_indices(self, indices: Integers) -> None:
        """Check indices [applications, indices]. Raises ValueError for indices out of range."""
        wrong = np.argwhere((indices < 0) | (indices >= np.array(self.index_bounds, np.int64)))
        for application, position in wrong[:1].tolist():
            bound, name = self._index_limits[position]
            raise ValueError(
                f"index {indices[application, position]} of {name} is out of range: it must be from 0 to "
                f"{bound - 1}. Nothing was recorded by this call; all before it can be used"
            )

    def check(self, widths: tuple[int, ...], indices: int) -> None:
        """Check what is given to an application. Raises ValueError if the template takes something else.

        widths: the widths of the given values; indices: the number of given indices.
        """
        if widths == self.taken and indices == self.indices:
            return
        self.check_counts(len(widths), indices)
        raise ValueError(
            f"values of widths {list(widths)} given, but the template takes widths {list(self.taken)}"
        )

    def check_counts(self, values: int, indices: int) -> None:
        """Raises ValueError if an application takes a different number of values or indices."""
        for given, taken, what in ((values, self.arguments, "values"), (indices, self.indices, "indices")):
            if given != taken:
                raise ValueError(f"{given} {what} given, but the template takes {taken}")

    @classmethod
    def of(cls, operation: Operation, widths: Sequence[int] = ()) -> Template:
        """Make a template of a single operation. widths: the widths of its arguments. Raises TypeError."""
        check_operation(operation)
        count = len(widths)
        index = 0 if operation.has_index else None
        node = TemplateNode(operation, tuple(range(count)), index, count)
        results = tuple(range(count, count + len(operation.outputs)))
        all_widths = *widths, *operation.outputs
        return cls(all_widths, count, int(operation.has_index), wiring_of([node], all_widths), results)

    @classmethod
    def trace(
        cls, write: Callable[..., Value | Sequence[Value]], widths: Sequence[int], indices: int = 0
    ) -> Template:
        """Make a template of the operations that `write(writer, *values, *indices)` records.

        widths: the widths of the values; indices: the number of indices. Raises ValueError.
        """
        tracer = _Tracer(widths)
        returned = write(tracer, *Values(tracer, range(len(widths))), *map(_TracedIndex, range(indices)))
        results = tuple(numbers_of((returned,) if isinstance(returned, Value) else returned, tracer))
        if not results:
            raise ValueError("a template must return a result")
        if any(result < len(widths) for result in results):
            raise ValueError("a template must return results of its operations, not its own arguments")
        if len(set(results)) < len(results):
            raise ValueError("a template must not return the same value twice")
        wiring = wiring_of(tracer.nodes, tracer.widths)
        return cls(tuple(tracer.widths), len(widths), indices, wiring, results)


@dataclass(frozen=True)
class TemplateNode:
    """An operation of a template.

    A template's values are numbered: first its arguments, then the nodes' outputs.
    """

    operation: Operation
    arguments: tuple[int, ...]
    index: int | None
    """The position of the node's index among the template's indices."""
    first: int
    """The number of the node's first output."""


class Origin(NamedTuple):
    """An operation object, and the widths of its arguments.

    All applications of a template share the template's origins. Single operations of equal signature in a
    graph share one origin, too.
    """

    operation: Operation
    widths: tuple[int, ...]
    """The widths of the arguments."""

    def signature(self) -> Hashable:
        """A key that is equal for operations that can share a batch."""
        return self.operation.signature(), self.widths


class Wiring(NamedTuple):
    """Arrays have an entry for each operation, unless another shape is given."""

    origins: tuple[Origin, ...]
    """The different origins."""
    origin: Integers
    """The position of the operation's origin in `origins`."""
    first_output: Integers
    """The number of the first output, counted from the first value that the template computes."""
    index_position: Integers
    """The position of the operation's index among the template's indices; -1 for none."""
    arguments: Integers
    """[arguments of all operations] Values of the template, operation by operation."""
    occurrence: Integers
    """The greatest number of preceding operations of the same origin on a path to the operation."""
    depth: Integers
    """The length of the longest path to the operation."""
    longest: Integers
    """[origins + 1] The most occurrences of each origin on a path through the template; last, the length of
    the longest path."""


def wiring_of(nodes: Sequence[TemplateNode], widths: Sequence[int]) -> Wiring:
    """Find the structure of a template. Raises ValueError if there are no nodes.

    widths: the widths of the template's values.
    """
    if not nodes:
        raise ValueError("a template needs at least one operation")
    number: dict[Origin, int] = {}
    origin = [
        number.setdefault(
            Origin(node.operation, tuple(widths[value] for value in node.arguments)), len(number)
        )
        for node in nodes
    ]
    nothing = [0] * (len(number) + 1)
    after = [nothing] * len(widths)  # the occurrences on the paths to each value, the last operation included
    occurrence, depth = [], []
    for node, its_origin in zip(nodes, origin, strict=True):
        counts = (
            list(map(max, zip(*[after[value] for value in node.arguments], strict=True))) or nothing.copy()
        )
        occurrence.append(counts[its_origin])
        depth.append(counts[-1])
        counts[its_origin] += 1
        counts[-1] += 1
        for value in range(node.first, node.first + len(node.operation.outputs)):
            after[value] = counts
    return Wiring(
        tuple(number),
        np.array(origin, np.int64),
        np.array([node.first for node in nodes], np.int64) - nodes[0].first,
        np.array([-1 if node.index is None else node.index for node in nodes], np.int64),
        np.array([value for node in nodes for value in node.arguments], np.int64),
        np.array(occurrence, np.int64),
        np.array(depth, np.int64),
        np.array(after, np.int64).max(0),
    )


def nodes_of(wiring: Wiring, arguments: int) -> tuple[TemplateNode, ...]:
    """Return the nodes of a template with the given number of arguments."""
    origins = [wiring.origins[number] for number in wiring.origin.tolist()]
    values = iter(wiring.arguments.tolist())
    return tuple(
        TemplateNode(
            origin.operation,
            tuple(islice(values, len(origin.widths))),
            None if index < 0 else index,
            arguments + first,
        )
        for origin, index, first in zip(
            origins, wiring.index_position.tolist(), wiring.first_output.tolist(), strict=True
        )
    )


class _TracedIndex:
    """An index while a template is traced: its position among the template's indices, without a number."""

    def __init__(self, position: int):
        self.position = position

    def _refuse(self, *_: object) -> NoReturn:
        raise TypeError(
            "an index has no number while a template is traced, once for all indices: where the computation "
            "depends on it, make a template for each"
        )

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __int__ = __index__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __floordiv__ = __mod__ = _refuse
    __hash__ = object.__hash__


class _Tracer(Writer):
    def __init__(self, widths: Sequence[int]):
        self.widths = list(widths)
        self.nodes: list[TemplateNode] = []

    def operate(
        self, operation: Operation, values: Sequence[Value], index: Index | None = None
    ) -> Sequence[Value]:
        check_operation(operation)
        name = operation.name
        if operation.has_index != (index is not None):
            raise ValueError(f"{name} takes {'an' if operation.has_index else 'no'} index")
        if index is not None and not isinstance(index, _TracedIndex):
            raise ValueError(
                f"{name}: in a template an index must be one of the template's own, not {index}; `a[3:4]` is "
                "a fixed element of a value"
            )
        position = None if index is None else index.position
        first = len(self.widths)
        self.nodes.append(TemplateNode(operation, tuple(numbers_of(values, self)), position, first))
        self.widths += operation.outputs
        return Values(self, range(first, len(self.widths)))

    def apply(
        self, template: Template, values: Sequence[Value], indices: Sequence[Index] = ()
    ) -> Sequence[Value]:
        """Copy the template's operations into the traced template."""
        template.check(tuple(map(self.width, values)), len(indices))
        all_values = [*values]
        for node in template.nodes:
            index = None if node.index is None else indices[node.index]
            arguments = [all_values[value] for value in node.arguments]
            all_values += self.operate(node.operation, arguments, index)
        return [all_values[result] for result in template.results]

    def width_of(self, number: int) -> int:
        return self.widths[number]
