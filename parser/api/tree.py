"""A parsed sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from parser.api.drawing import as_svg, as_text
from parser.treebank.conllu_output import ARC_PROBABILITY

Column = tuple[str, ...] | None


@dataclass(frozen=True)
class Tree:
    """The words of a sentence and their tree. Word 1 is the first one, head 0 is ROOT.

    Tags are those that were given and, for words without, those that the model predicts; None without any.
    """

    words: tuple[str, ...]
    heads: tuple[int, ...]
    labels: tuple[str, ...]
    upos: Column = None
    xpos: Column = None
    feats: Column = None
    lemmas: Column = None
    probabilities: tuple[float, ...] | None = None
    """Of the labelled arc to each word, when the parser made it; None unless asked for."""

    def __len__(self) -> int:
        """Number of words."""
        return len(self.words)

    def to_conllu(self) -> str:
        """The sentence in CoNLL-U, with the blank line after it."""
        miscellaneous: Sequence[str] = ["_"] * len(self)
        if self.probabilities is not None:
            miscellaneous = [f"{ARC_PROBABILITY}={number:.4f}" for number in self.probabilities]
        rows = zip(
            map(str, range(1, len(self) + 1)),
            self.words,
            *(column or ["_"] * len(self) for column in (self.lemmas, self.upos, self.xpos, self.feats)),
            map(str, self.heads),
            self.labels,
            ["_"] * len(self),
            miscellaneous,
            strict=True,
        )
        return "".join("\t".join(row) + "\n" for row in rows) + "\n"

    def __str__(self) -> str:
        """A drawing in text, a line for each word."""
        return as_text(self.words, self.heads, self.labels)

    def _repr_svg_(self) -> str:
        """A drawing for notebooks."""
        return as_svg(self.words, self.heads, self.labels)
