"""Applications that look alike all the way down, as one.

Two applications of a template whose arguments look alike get their arguments at the same moment, whatever
the schedule, so they always run in the same batch. So it is enough to schedule patterns, of which there are
far fewer: the fifth step of an LSTM is one pattern for all sentences, "a pair of leaves" for all trees.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from parser.batching.operations.template import Template

PatternKey = tuple[Any, ...]
"""A template, then values of patterns."""
PatternValue = int
"""A pattern's result, or, for values that are computed already, just their width."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A template applied to values of patterns."""

    number: int
    template: Template
    arguments: tuple[PatternValue, ...]
    results: tuple[PatternValue, ...]


class Patterns:
    """Numbers patterns and their values in the order in which they first occur."""

    def __init__(self) -> None:
        self.found: dict[PatternKey, Pattern] = {}
        self.all: list[Pattern] = []
        self.widths: list[int] = []
        """Of each pattern value."""
        self.source: list[tuple[int, int] | None] = []
        """Of each pattern value, the pattern and which of its results it is; None for computed ones."""
        self._computed: dict[int, PatternValue] = {}

    def add(self, key: PatternKey) -> Pattern:
        template, *arguments = key
        first = len(self.widths)
        pattern = Pattern(
            len(self.all), template, tuple(arguments), tuple(range(first, first + len(template.results)))
        )
        self.widths += [template.widths[result] for result in template.results]
        self.source += [(pattern.number, place) for place in range(len(template.results))]
        self.all.append(pattern)
        self.found[key] = pattern
        return pattern

    def computed(self, width: int) -> PatternValue:
        """That of all values of the width that are computed already."""
        if width not in self._computed:
            self._computed[width] = len(self.widths)
            self.widths.append(width)
            self.source.append(None)
        return self._computed[width]
