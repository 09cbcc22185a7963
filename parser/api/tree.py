"""A parsed sentence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypedDict

from parser.pages.drawing import as_svg, as_text
from parser.text.sentences import Token
from parser.treebank.columns import BLANK, BLANK_COLUMNS, TITLES, annotation_columns
from parser.treebank.conllu_output import ARC_PROBABILITY, VIOLATION

Column = tuple[str, ...] | None
TAGS = {column.attribute: name for name, column in annotation_columns().items()}
"""Columns of a tree that a model may read and predict, and their names in models and in CoNLL-U."""
TREE = "heads", "labels"
"""What may be given of the tree, and stays."""
COMMENTS = "sent_id", "text"
"""What a tree has of its sentence as a whole, and their names in CoNLL-U."""


class Tags(TypedDict, total=False):
    """Tags that may be given of a sentence in addition to its words: for each word a value, `_` for none."""

    upos: Sequence[str] | None
    xpos: Sequence[str] | None
    feats: Sequence[str] | None
    lemmas: Sequence[str] | None


class Known(Tags, total=False):
    """What else may be given: heads and labels, which stay; None for those that are to be found."""

    heads: Sequence[int | None] | None
    labels: Sequence[str | None] | None


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
    """Of the labelled arc to each word, see `ArcProbabilities`; None unless asked for."""
    tokens: tuple[Token, ...] | None = None
    """The tokens of a sentence of a text, with their places there; None if words were given."""
    text: str | None = None
    """The sentence as in the text, with one space for any white space; of words, what was given with them."""
    sent_id: str | None = None
    """The number of a sentence in its text, from 1; of words, what was given with them."""
    begins_paragraph: bool = False
    """Only of a sentence of a text."""
    violations: tuple[str, ...] = ()
    """Of each word the constraints that could not be kept there, as `not-root`; empty if all were."""
    score: float | None = None
    """Of one of several trees, see `Parser.best_trees`: the mean log probability of its transitions, to which
    that of its arcs by the scorer of arcs is added, if there is one."""

    def __len__(self) -> int:
        """Number of words."""
        return len(self.words)

    def to_conllu(self) -> str:
        """The sentence in CoNLL-U, with its comments and with the blank line after it."""
        multiword, miscellaneous = self._of_tokens()
        for word, probability in enumerate(self.probabilities or ()):
            miscellaneous[word].append(f"{ARC_PROBABILITY}={probability:.4f}")
        for word, violation in enumerate(self.violations):
            miscellaneous[word] += [f"{VIOLATION}={violation}"] if violation else []
        columns: dict[str, Iterable[str]] = {
            "ID": map(str, range(1, len(self) + 1)),
            "FORM": self.words,
            **{own.title: getattr(self, own.attribute) for own in annotation_columns().values()},
            "HEAD": map(str, self.heads),
            "DEPREL": self.labels,
            "MISC": ("|".join(own) or BLANK for own in miscellaneous),
        }
        rows = zip(*(columns.get(title) or [BLANK] * len(self) for title in TITLES), strict=True)
        lines = (multiword.get(word, "") + "\t".join(row) + "\n" for word, row in enumerate(rows))
        return "".join([*self._comments(), *lines, "\n"])

    def _comments(self) -> Iterator[str]:
        if self.begins_paragraph:
            yield "# newpar\n"
        for name in COMMENTS:
            if value := getattr(self, name):
                yield f"# {name} = {value}\n"
        if self.score is not None:
            yield f"# tree_score = {self.score:.6f}\n"

    def _of_tokens(self) -> tuple[dict[int, str], list[list[str]]]:
        """The lines of multiword tokens by their first words, from 0, and what MISC has of each word."""
        multiword: dict[int, str] = {}
        miscellaneous: list[list[str]] = [[] for _ in self.words]
        first = 0
        for token in self.tokens or ():
            if len(token.words) == 1:
                miscellaneous[first].append(token.miscellaneous)
            else:
                numbers = f"{first + 1}-{first + len(token.words)}"
                multiword[first] = f"{numbers}\t{token.form}\t{BLANK_COLUMNS}\t{token.miscellaneous}\n"
            first += len(token.words)
        return multiword, miscellaneous

    def __str__(self) -> str:
        """A drawing in text, a line for each word."""
        return as_text(self.words, self.heads, self.labels)

    def _repr_svg_(self) -> str:
        """A drawing for notebooks."""
        return as_svg(self.words, self.heads, self.labels)
