"""Templates: computations that are traced once and applied many times, each application a compact record."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property

from parser.batching.operations.operation import Operation
from parser.batching.operations.writer import Index, Value, Writer


@dataclass(frozen=True)
class TemplateNode:
    """An operation of a template.

    A template's values are numbered: first its arguments, then the nodes' outputs.
    """

    operation: Operation
    arguments: tuple[int, ...]
    index: int | None
    """The position of its index among the template's indices."""
    first: int
    """The number of its first output."""


@dataclass(frozen=True, eq=False)
class Template:
    """widths: of all values; arguments, indices: how many values and integers an application takes."""

    widths: tuple[int, ...]
    arguments: int
    indices: int
    nodes: tuple[TemplateNode, ...]
    results: tuple[int, ...]
    """The values that an application returns; all are outputs of nodes."""

    @cached_property
    def signatures(self) -> tuple[Hashable, ...]:
        """The signatures of its nodes, with the widths of their arguments."""
        return tuple(
            (node.operation.signature(), tuple(self.widths[value] for value in node.arguments))
            for node in self.nodes
        )

    @cached_property
    def bounds(self) -> tuple[tuple[int, int], ...]:
        """The positions of its bounded indices, with their exclusive upper bounds."""
        return tuple(
            (node.index, node.operation.indices)
            for node in self.nodes
            if node.index is not None and node.operation.indices is not None
        )

    @classmethod
    def of(cls, operation: Operation, widths: Sequence[int] = ()) -> Template:
        """A template of a single operation. widths: of its arguments."""
        count = len(widths)
        index = 0 if operation.has_index else None
        node = TemplateNode(operation, tuple(range(count)), index, count)
        results = tuple(range(count, count + len(operation.outputs)))
        return cls((*widths, *operation.outputs), count, int(operation.has_index), (node,), results)

    @classmethod
    def trace(
        cls, write: Callable[..., Value | tuple[Value, ...]], widths: Sequence[int], indices: int = 0
    ) -> Template:
        """The operations that `write(writer, *values, *indices)` records. Raises ValueError."""
        tracer = _Tracer(widths)
        results = write(tracer, *range(len(widths)), *range(indices))
        results = results if isinstance(results, tuple) else (results,)
        if any(result < len(widths) for result in results):
            raise ValueError("a template must return results of its operations, not its own arguments")
        if len(set(results)) < len(results):
            raise ValueError("a template must not return the same value twice")
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
