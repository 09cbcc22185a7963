"""Applications that look alike all the way down, as one.

Two applications of a template whose arguments look alike get their arguments at the same moment, whatever
the schedule, so they always run in the same batch. So it is enough to schedule patterns, of which there are
far fewer: the fifth step of an LSTM is one pattern for all sentences, "a pair of leaves" for all trees. And
what was found out about a pattern holds for all graphs to come.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

from parser.batching.operations.operation import Operation
from parser.batching.operations.template import Template

PatternKey = tuple[Any, ...]
"""A template, then values of patterns."""
PatternValue = int
"""A pattern's result; or, for values that are computed already, just their width."""


class PatternNode(NamedTuple):
    """One operation of a pattern, which stands for one of each of its applications."""

    pattern: int
    place: int
    """Which of its template's nodes it is."""
    signature: int
    """Equal for those that can be one batch."""
    is_product: bool
    depth: int
    """The longest way from something that is computed already."""
    before: tuple[int, ...]
    """The nodes, by number, that give its arguments and are not computed already."""


class Pattern(NamedTuple):
    """A template applied to values of patterns."""

    number: int
    nodes: range
    """Their numbers."""
    results: tuple[PatternValue, ...]


class Patterns:
    """Numbers patterns, their nodes and values in the order in which they first occur; forgets none."""

    def __init__(self) -> None:
        self.found: dict[PatternKey, Pattern] = {}
        self.all: list[Pattern] = []
        self.nodes: list[PatternNode] = []
        self.widths: list[int] = []
        """Of each pattern value."""
        self._giver: list[int | None] = []  # of each pattern value, the node; None for computed ones
        self._computed: dict[int, PatternValue] = {}
        self._signatures: dict[Hashable, int] = {}
        self._templates: dict[Hashable, Template] = {}
        self._plans: dict[Template, _Plan] = {}

    def template(self, operation: Operation, widths: tuple[int, ...]) -> Template:
        """That of a single operation; widths: of its arguments."""
        key = operation.signature(), widths
        if key not in self._templates:
            self._templates[key] = Template.of(operation, widths)
        return self._templates[key]

    def add(self, key: PatternKey) -> Pattern:
        """Raises ValueError if the arguments are not those that the template takes."""
        template, *arguments = key
        plan = self._plans.get(template) or self._plan(template)
        given = [self.widths[value] for value in arguments]
        if given != plan.takes:
            raise ValueError(f"values of widths {given}, but the template takes {plan.takes}")
        first, value = len(self.nodes), len(self.widths)
        givers = self._add_nodes(plan, [self._giver[argument] for argument in arguments])
        self.widths += plan.gives
        pattern = Pattern(len(self.all), range(first, len(self.nodes)), tuple(range(value, len(self.widths))))
        self._giver += [givers[result] for result in template.results]
        self.all.append(pattern)
        self.found[key] = pattern
        return pattern

    def computed(self, width: int) -> PatternValue:
        """That of all values of the width that are computed already."""
        if width not in self._computed:
            self._computed[width] = len(self.widths)
            self.widths.append(width)
            self._giver.append(None)
        return self._computed[width]

    def _plan(self, template: Template) -> _Plan:
        takes = list(template.widths[: template.arguments])
        gives = [template.widths[result] for result in template.results]
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
        self._plans[template] = _Plan(takes, gives, nodes)
        return self._plans[template]

    def _add_nodes(self, plan: _Plan, givers: list[int | None]) -> list[int | None]:
        """The nodes that give all of the template's values. givers: those that give its arguments."""
        pattern, known = len(self.all), self.nodes
        for place, signature, is_product, arguments, outputs in plan.nodes:
            before = {giver for value in arguments if (giver := givers[value]) is not None}
            depth = 1 + max([known[giver].depth for giver in before]) if before else 0
            givers += [len(known)] * outputs
            known.append(PatternNode(pattern, place, signature, is_product, depth, tuple(sorted(before))))
        return givers


class _Plan(NamedTuple):
    """What is the same for all patterns of a template."""

    takes: list[int]
    """The widths of its arguments; gives: of its results."""
    gives: list[int]
    nodes: list[tuple[int, int, bool, tuple[int, ...], int]]
    """Place, signature, whether it is a product, arguments, number of outputs."""
