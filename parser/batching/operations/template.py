"""A computation that is written once and recorded many times, as one compact entry each time."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property

from parser.batching.operations.operation import Operation
from parser.batching.operations.writer import Index, Value, Writer


@dataclass(frozen=True)
class TemplateNode:
    """An operation of a template, whose values are numbered: its arguments first, then what nodes give."""

    operation: Operation
    arguments: tuple[int, ...]
    index: int | None
    """Which of the template's indices it takes."""
    first: int
    """The first of the values that it gives."""


@dataclass(frozen=True, eq=False)
class Template:
    """widths: of all its values; arguments: so many of them it is given; indices: integers it is given."""

    widths: tuple[int, ...]
    arguments: int
    indices: int
    nodes: tuple[TemplateNode, ...]
    results: tuple[int, ...]
    """Which of its values others may use; all of them nodes'."""

    @cached_property
    def signatures(self) -> tuple[Hashable, ...]:
        """Of its nodes, with the widths of their arguments."""
        return tuple(
            (node.operation.signature(), tuple(self.widths[value] for value in node.arguments))
            for node in self.nodes
        )

    @cached_property
    def bounds(self) -> tuple[tuple[int, int], ...]:
        """Its indices, each with what it must be below."""
        return tuple(
            (node.index, node.operation.indices)
            for node in self.nodes
            if node.index is not None and node.operation.indices is not None
        )

    @classmethod
    def of(cls, operation: Operation, widths: Sequence[int] = ()) -> Template:
        """A single operation: the grain of whole cells. widths: of its arguments."""
        count = len(widths)
        index = 0 if operation.has_index else None
        node = TemplateNode(operation, tuple(range(count)), index, count)
        results = tuple(range(count, count + len(operation.outputs)))
        return cls((*widths, *operation.outputs), count, int(operation.has_index), (node,), results)

    @classmethod
    def trace(
        cls, write: Callable[..., Value | tuple[Value, ...]], widths: Sequence[int], indices: int = 0
    ) -> Template:
        """What `write(writer, *values, *indices)` writes: the grain of single operations."""
        tracer = _Tracer(widths)
        results = write(tracer, *range(len(widths)), *range(indices))
        results = results if isinstance(results, tuple) else (results,)
        if any(result < len(widths) for result in results):
            raise ValueError("a template must give what its operations give, not its own arguments")
        if len(set(results)) < len(results):
            raise ValueError("a template must not give the same value twice")
        return cls(tuple(tracer.widths), len(widths), indices, tuple(tracer.nodes), results)


class _Tracer(Writer):
    def __init__(self, widths: Sequence[int]):
        self.widths = list(widths)
        self.nodes: list[TemplateNode] = []

    def operate(
        self, operation: Operation, values: Sequence[Value], index: Index | None = None
    ) -> list[Value]:
        first = len(self.widths)
        self.nodes.append(TemplateNode(operation, tuple(values), index, first))
        self.widths += operation.outputs
        return list(range(first, len(self.widths)))

    def width(self, value: Value) -> int:
        return self.widths[value]
