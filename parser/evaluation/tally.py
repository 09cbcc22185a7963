"""Counts of errors by kind, each kind with its first examples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

EXAMPLES = 3
"""Maximum number of examples of a kind."""
Kind = tuple[str, ...]


class Example(NamedTuple):
    text: str
    """The form of a word, or the words around a place in a text."""
    sentence: int
    """The number of the gold sentence, from 0."""
    identifier: str
    line: int
    """The identifier and the line number of the sentence in its file."""

    @property
    def place(self) -> str:
        return f"{self.identifier}, line {self.line:,}"


@dataclass
class Tally:
    counts: Counter[Kind] = field(default_factory=Counter)
    unknown: Counter[Kind] = field(default_factory=Counter)
    """Those of words whose form is not in the training treebank."""
    examples: dict[Kind, list[Example]] = field(default_factory=dict)
    """The first examples of each kind, with different texts."""

    def add(self, kind: Kind, example: Example, is_known: bool = True) -> None:
        self.counts[kind] += 1
        self.unknown[kind] += not is_known
        examples = self.examples.setdefault(kind, [])
        if len(examples) < EXAMPLES and all(example.text != other.text for other in examples):
            examples.append(example)

    def ordered(self, most: int | None = None) -> list[Kind]:
        """The most frequent kinds, all by default; of equally frequent ones the first in the alphabet."""
        return sorted(self.counts, key=lambda kind: (-self.counts[kind], kind))[:most]

    def as_rows(self, *names: str) -> Iterator[dict[str, Any]]:
        """All kinds, as JSON objects. names: the names of the parts of a kind."""
        for kind in self.ordered():
            yield {
                **dict(zip(names, kind, strict=True)),
                "words": self.counts[kind],
                "unknown": self.unknown[kind],
                "examples": [example._asdict() for example in self.examples[kind]],
            }
