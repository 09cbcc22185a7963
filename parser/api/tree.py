"""A parsed sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict

from parser.enhanced.graph import as_deps
from parser.pages.drawing import as_svg, as_text
from parser.text.tokenizer import Token
from parser.treebank.conllu_output import ARC_PROBABILITY, TAG_PROBABILITIES, VIOLATION, sentence_lines
from parser.treebank.sentence import BLANK, DEPS, FORM, HEAD, LABEL, MISC, WORD_COLUMNS, annotation_columns

Column = tuple[str, ...] | None
TAGS = {column.attribute: name for name, column in annotation_columns().items()}
"""Columns of a tree that a model may read and predict, and their names in models and in CoNLL-U."""
TREE = "heads", "labels"
"""The parts of the tree that can be given, and stay."""
COMMENTS = "sent_id", "text"
"""The attributes of a tree that describe the whole sentence, named as in CoNLL-U."""


class Tags(TypedDict, total=False):
    """Tags that can be given with the words of a sentence: a value for each word, `_` for none."""

    upos: Sequence[str] | None
    xpos: Sequence[str] | None
    feats: Sequence[str] | None
    lemmas: Sequence[str] | None


class Known(Tags, total=False):
    """Tags, and heads and labels, which stay; heads and labels that are None are predicted."""

    heads: Sequence[int | None] | None
    labels: Sequence[str | None] | None


@dataclass(frozen=True)
class Tree:
    """The words of a sentence and their tree. Word 1 is the first word, head 0 is ROOT.

    Tags are the given ones and, for words without a given tag, the ones that the model predicts. They are
    None if there are neither. Beside a given UPOS, features that are not given are `_`: none.
    """

    words: tuple[str, ...]
    heads: tuple[int, ...]
    labels: tuple[str, ...]
    upos: Column = None
    xpos: Column = None
    feats: Column = None
    lemmas: Column = None
    enhanced: tuple[tuple[tuple[int, str], ...], ...] | None = None
    """The enhanced dependencies: heads (0 for ROOT) and labels of the edges to each word; None if the model
    has not learned any."""
    probabilities: tuple[float, ...] | None = None
    """The probability of the labelled arc to each word, see `ArcProbabilities`; None unless requested."""
    tag_probabilities: Mapping[str, tuple[float, ...]] | None = None
    """The probabilities of predicted tags, features and lemmas by the name of their field, such as `upos`; 1
    where another value was given. None unless requested."""
    tokens: tuple[Token, ...] | None = None
    """The tokens of the sentence, with their positions in the text; None if words were given."""
    text: str | None = None
    """The sentence in the text, with white space as single spaces; for words, the text given with them."""
    sent_id: str | None = None
    """The number of the sentence in its text, from 1; for words, the identifier given with them."""
    begins_paragraph: bool = False
    """Whether the sentence starts a paragraph of a text; False if words were given."""
    violations: tuple[str, ...] = ()
    """The constraints that are broken at each word, such as `not-root`; empty if none is broken."""
    score: float | None = None
    """The score of one of several trees, see `Parser.best_trees`: the mean log probability of its transitions
    plus, if there is a scorer of arcs, the mean log probability of its arcs by that scorer."""

    def __len__(self) -> int:
        """Return the number of words."""
        return len(self.words)

    def to_conllu(self) -> str:
        """Return the sentence in CoNLL-U, with its comments and the blank line at the end."""
        miscellaneous: list[list[str]] = [[] for _ in self.words]
        for word, probability in enumerate(self.probabilities or ()):
            miscellaneous[word].append(f"{ARC_PROBABILITY}={probability:.4f}")
        for name, key in TAG_PROBABILITIES.items():
            of_words = (self.tag_probabilities or {}).get(WORD_COLUMNS[name].attribute, ())
            for word, probability in enumerate(of_words):
                miscellaneous[word].append(f"{key}={probability:.4f}")
        for word, violation in enumerate(self.violations):
            miscellaneous[word] += [f"{VIOLATION}={violation}"] if violation else []
        columns: dict[int, Sequence[str]] = {FORM: self.words}
        for column in annotation_columns().values():
            if values := getattr(self, column.attribute):
                columns[column.index] = values
        columns[HEAD], columns[LABEL] = list(map(str, self.heads)), self.labels
        if self.enhanced:
            columns[DEPS] = list(map(as_deps, self.enhanced))
        columns[MISC] = ["|".join(values) or BLANK for values in miscellaneous]
        tokens = [(token.form, len(token.words), token.miscellaneous) for token in self.tokens or ()]
        comments = ["newpar"] if self.begins_paragraph else []
        comments += [f"{name} = {value}" for name in COMMENTS if (value := getattr(self, name))]
        if self.score is not None:
            comments.append(f"tree_score = {self.score:.6f}")
        return "".join(sentence_lines(columns, tokens, comments)[0])

    def __str__(self) -> str:
        """Return a drawing in text, with a line for each word."""
        return as_text(self.words, self.heads, self.labels)

    def _repr_svg_(self) -> str:
        """Return a drawing for notebooks."""
        return as_svg(self.words, self.heads, self.labels)
