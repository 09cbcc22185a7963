"""What is said about an input when it is parsed: numbers that are added up over its parts."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from parser.models.column_shares import Counts


@dataclass
class Totals:
    sentences: int = 0
    words: int = 0
    dropped: int = 0
    """Sentences whose enhanced dependencies were dropped."""
    filled: Counter[str] = field(default_factory=Counter)
    """Number of values that were missing and were written, by column."""
    columns: dict[str, Counts] = field(default_factory=dict)
    """Counts of the values in the columns that the model reads."""

    def add(self, other: Totals) -> None:
        self.sentences += other.sentences
        self.words += other.words
        self.dropped += other.dropped
        self.filled += other.filled
        for name, counts in other.columns.items():
            self.columns.setdefault(name, Counts()).merge(counts)

    def as_json(self) -> dict[str, Any]:
        columns = {name: vars(counts) for name, counts in self.columns.items()}
        return {**vars(self), "filled": dict(self.filled), "columns": columns}

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Totals:
        """Inverse of `as_json`. Raises KeyError and TypeError if a value is missing or unknown."""
        columns = {name: Counts(**counts) for name, counts in stored["columns"].items()}
        return cls(**{**stored, "filled": Counter(stored["filled"]), "columns": columns})
