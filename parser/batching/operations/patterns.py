"""Patterns: equivalence classes of applications with the same template and equivalent arguments.

Applications of one pattern become ready at the same time in any schedule, so they always share a batch. It is
therefore enough to schedule patterns, of which there are far fewer: the fifth step of an LSTM is one pattern
for all sentences, "a pair of leaves" is one for all trees. Patterns are cached across graphs.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

from parser.batching.operations.operation import Operation
from parser.batching.operations.template import Template

PatternKey = tuple[Any, ...]
"""A template, then the pattern values of its arguments."""
PatternValue = int
"""A result of a pattern; or the class of all computed values of one width."""


class PatternNode(NamedTuple):
    """One operation of a pattern: it stands for that operation in all applications of the pattern."""

    pattern: int
    place: int
    """Its position among the nodes of the template."""
    signature: int
    """Equal for nodes that can share a batch."""
    is_product: bool
    depth: int
    """The length of the longest path from a computed value."""
    before: tuple[int, ...]
    """The numbers of the pending nodes that compute its arguments."""


class Pattern(NamedTuple):
    """A template applied to pattern values."""

    number: int
    nodes: range
    """The numbers of its nodes."""
    results: tuple[PatternValue, ...]


class Patterns:
    """A cache of patterns. Patterns, nodes and values are numbered in the order of their first occurrence."""

    def __init__(self) -> None:
        self.found: dict[PatternKey, Pattern] = {}
        self.all: list[Pattern] = []
        self.nodes: list[PatternNode] = []
        self.widths: list[int] = []
        """The width of each pattern value."""
        self._giver: list[int | None] = []  # by pattern value; None if computed
        self._computed: dict[int, PatternValue] = {}
        self._signatures: dict[Hashable, int] = {}
        self._templates: dict[Hashable, Template] = {}
        self._plans: dict[Template, _Plan] = {}

    def template(self, operation: Operation, widths: tuple[int, ...]) -> Template:
        """The template of a single operation. widths: of its arguments."""
        key = operation.signature(), widths
        if key not in self._templates:
            self._templates[key] = Template.of(operation, widths)
        return self._templates[key]

    def add(self, key: PatternKey) -> Pattern:
        """Add a pattern. Raises ValueError if the widths of the arguments do not suit the template."""
        template, *arguments = key
        plan = self._plans.get(template) or self._plan(template)
        given = [self.widths[value] for value in arguments]
        if given != plan.argument_widths:
            expected = plan.argument_widths
            raise ValueError(f"values of widths {given} given, but the template takes widths {expected}")
        first, value = len(self.nodes), len(self.widths)
        givers = self._add_nodes(plan, [self._giver[argument] for argument in arguments])
        self.widths += plan.result_widths
        pattern = Pattern(len(self.all), range(first, len(self.nodes)), tuple(range(value, len(self.widths))))
        self._giver += [givers[result] for result in template.results]
        self.all.append(pattern)
        self.found[key] = pattern
        return pattern

    def computed(self, width: int) -> PatternValue:
        """The pattern value of all computed values of that width."""
        if width not in self._computed:
            self._computed[width] = len(self.widths)
            self.widths.append(width)
            self._giver.append(None)
        return self._computed[width]

    def _plan(self, template: Template) -> _Plan:
        argument_widths = list(template.widths[: template.arguments])
        result_widths = [template.widths[result] for result in template.results]
        nodes = [
            (
                place,
                self._signatures.setdefault(signature, len(self._signatures)),
                node.operation.is_product,
                node.arguments,
                len(node.operation.outputs),
            )
            for place, (node, signature) in enumerate(zip(template.nodes, template.signatures, strict=True))
        ]
        self._plans[template] = _Plan(argument_widths, result_widths, nodes)
        return self._plans[template]

    def _add_nodes(self, plan: _Plan, givers: list[int | None]) -> list[int | None]:
        """The nodes that compute the template's values. givers: those that compute its arguments."""
        pattern, all_nodes = len(self.all), self.nodes
        for place, signature, is_product, arguments, outputs in plan.nodes:
            before = {giver for value in arguments if (giver := givers[value]) is not None}
            depth = 1 + max([all_nodes[giver].depth for giver in before]) if before else 0
            givers += [len(all_nodes)] * outputs
            all_nodes.append(PatternNode(pattern, place, signature, is_product, depth, tuple(sorted(before))))
        return givers


class _Plan(NamedTuple):
    """What all patterns of a template have in common."""

    argument_widths: list[int]
    result_widths: list[int]
    nodes: list[tuple[int, int, bool, tuple[int, ...], int]]
    """Position, signature, whether it is a product, arguments, number of outputs."""
