"""What the trees of a treebank never have: constraints on trees that are learned from it.

Many rules of Universal Dependencies hold in a treebank without exception: no head has two subjects, `conj`
follows its head, function words have hardly any dependents, and `det` is not a verb. A pair of values is
ruled out if the trees lack it although both are so frequent that it should occur `LEAST_EXPECTED` times if
they were independent. So a treebank with other rules keeps these.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, combinations_with_replacement
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict

from parser.treebank.sentence import BLANK, Sentence

LEAST_EXPECTED = 20
"""How often a pair that is ruled out should have occurred by chance. With half as many, twice as many arcs of
gold trees that training has not seen break constraints."""
LEAST_WITH_VALUE = 100
"""How many words with a label must have the same value of a column for all words with it to get it."""
COLUMNS_OF_VALUES = "upos", "xpos", "feats", "lemma"
LEAST_FILLED = 0.05
"""Columns in which fewer words have a value were not annotated."""
MOST_KNOWN, MOST_DEPENDENTS = 65_536, 16
"""Most arcs and lists of dependents for which it is kept what they break, and the longest lists."""
SETS = "tags", "parents", "siblings", "following", "preceding"
OF_ONE_WORD = "fixed", "goeswith"
"""The labels of the other words of a fixed expression, and of the other parts of a word. The UPOS of the
first one does not tell what the whole is."""
Pairs = frozenset[tuple[str, str]]


class ConstrainedTree(NamedTuple):
    """Heads and labels may change. Words have numbers from 1; index 0 is ROOT, which has no label."""

    heads: list[int]
    labels: list[str]
    """Empty for words to which no constraint applies."""
    upos: Sequence[str]
    children: list[list[int]]

    @classmethod
    def of(cls, heads: Sequence[int], labels: Sequence[str], upos: Sequence[str]) -> ConstrainedTree:
        children: list[list[int]] = [[] for _ in range(len(heads) + 1)]
        for word, head in enumerate(heads, 1):
            children[head].append(word)
        return cls([0, *heads], ["", *labels], ["", *upos], children)

    def attach(self, word: int, head: int, label: str) -> None:
        self.children[self.heads[word]].remove(word)
        self.children[head].append(word)
        self.heads[word], self.labels[word] = head, label

    def crosses(self, word: int, head: int) -> bool:
        """Whether an arc crosses one of the tree, without the present arc of the word."""
        first, last = sorted((word, head))
        for other, its_head in enumerate(self.heads[1:], 1):
            if other != word and (first < other < last) != (first < its_head < last):
                outside = its_head if first < other < last else other
                if outside not in (first, last):
                    return True
        return False

    def upos_as_dependent(self, word: int) -> str:
        """The UPOS; empty for the first word of an expression."""
        is_first = any(self.labels[child] in OF_ONE_WORD for child in self.children[word])
        return "" if is_first else self.upos[word]

    def is_above(self, word: int, other: int) -> bool:
        """Whether a word is the other one, or one of its ancestors."""
        while other and other != word:
            other = self.heads[other]
        return other == word


@dataclass(frozen=True)
class LearnedConstraints:
    tags: Pairs = frozenset()
    """Labels with UPOS that the word cannot have."""
    parents: Pairs = frozenset()
    """Labels of a head with labels that its dependents cannot have."""
    siblings: Pairs = frozenset()
    """Labels that two dependents of one head cannot have, in alphabetical order."""
    following: frozenset[str] = frozenset()
    """Labels of words that always follow their heads."""
    preceding: frozenset[str] = frozenset()
    """Labels of words that always precede them."""
    values: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """What all words with a label have in a column, such as `_` as the lemma of `goeswith`. By label."""
    _known: dict[tuple[Any, ...], int] = field(default_factory=dict, init=False, compare=False, repr=False)
    """The number of broken constraints by arc, and by the labels of dependents."""

    def conflicts(self, tree: ConstrainedTree, word: int, head: int, label: str) -> int:
        """How many constraints are broken by a word and its neighbours if it has this head and label."""
        labels, siblings = tree.labels, tree.children[head] if head else ()
        return (
            self._of_arc(label, tree.upos_as_dependent(word), labels[head], head > word)
            + sum([(label, labels[child]) in self.parents for child in tree.children[word]])
            + sum([_ordered(label, labels[each]) in self.siblings for each in siblings if each != word])
        )

    def _of_arc(self, label: str, upos: str, above: str, precedes: bool) -> int:
        """How many constraints are broken by an arc alone. above: the label of the head; empty for ROOT.
        precedes: whether the word precedes its head."""
        has_order = label in (self.following if precedes else self.preceding) and bool(above)
        return ((label, upos) in self.tags) + has_order + ((above, label) in self.parents)

    def broken(self, tree: ConstrainedTree) -> list[int]:
        """The words that take part in broken constraints."""
        if self._are_kept(tree):
            return []
        heads, labels = tree.heads, tree.labels
        return [
            word
            for word in range(1, len(heads))
            if labels[word] and self.conflicts(tree, word, heads[word], labels[word])
        ]

    def _are_kept(self, tree: ConstrainedTree) -> bool:
        """Whether no constraint is broken. The same arcs and dependents are met again and again, so that what
        was found for them is kept."""
        labels, known = tree.labels, self._known
        if len(known) >= MOST_KNOWN:
            known.clear()
        has_expressions = any(label in labels for label in OF_ONE_WORD)
        for word, (head, label, upos) in enumerate(zip(tree.heads, labels, tree.upos, strict=True)):
            arc = label, tree.upos_as_dependent(word) if has_expressions else upos, labels[head], head > word
            number = known.get(arc)
            if number is None:
                number = known[arc] = self._of_arc(*arc)
            if number and label:
                return False
        for children in tree.children[1:]:
            if len(children) > 1:
                own = *[labels[child] for child in children], ""
                number = known.get(own)
                if number is None:
                    pairs = {_ordered(one, other) for one, other in combinations(own, 2)}
                    number = len(pairs & self.siblings)
                    if len(own) <= MOST_DEPENDENTS:
                        known[own] = number
                if number:
                    return False
        return True

    def with_values(
        self, tags: Mapping[str, tuple[str, ...]], labels: Sequence[str]
    ) -> Mapping[str, tuple[str, ...]]:
        """The predicted columns, where words with certain labels have their only value."""
        changed: dict[str, list[str]] = {}
        for word, label in enumerate(labels):
            if label in self.values:
                for column, value in self.values[label].items():
                    if column in tags and tags[column][word] != value:
                        changed.setdefault(column, list(tags[column]))[word] = value
        return {**tags, **{column: tuple(values) for column, values in changed.items()}} if changed else tags

    @classmethod
    def learned(cls, trees: Iterable[Sentence]) -> LearnedConstraints:
        seen = _Seen()
        for sentence in trees:
            seen.add(sentence)
        return seen.constraints()

    def without_broken(self, trees: Iterable[Sentence]) -> LearnedConstraints:
        """Those that no gold tree breaks."""
        kept = {name: set(getattr(self, name)) for name in SETS}
        values = {label: dict(own) for label, own in self.values.items()}
        for sentence in trees:
            tree = ConstrainedTree.of(sentence.heads, sentence.labels, sentence.upos)
            for word in self.broken(tree):
                label, head = tree.labels[word], tree.heads[word]
                kept["tags"].discard((label, tree.upos_as_dependent(word)))
                kept["parents"].discard((tree.labels[head], label))
                siblings = [tree.labels[other] for other in tree.children[head] if other != word]
                kept["siblings"] -= {_ordered(label, other) for other in siblings}
                kept["following" if head > word else "preceding"].discard(label)
            for column in COLUMNS_OF_VALUES:
                for label, value in zip(sentence.labels, sentence.column(column), strict=True):
                    if values.get(label, {}).get(column, value) != value:
                        del values[label][column]
        return LearnedConstraints(
            **{name: frozenset(own) for name, own in kept.items()},
            values={label: own for label, own in values.items() if own},
        )

    def as_json(self) -> str:
        content = {name: sorted(getattr(self, name)) for name in SETS} | {"values": self.values}
        return _ConstraintsContent.model_validate(content).model_dump_json()

    @classmethod
    def from_json(cls, text: str) -> LearnedConstraints:
        """Inverse of `as_json`. Raises ValueError for another text."""
        content = _ConstraintsContent.model_validate_json(text)
        return cls(**{name: frozenset(getattr(content, name)) for name in SETS}, values=content.values)


def _ordered(one: str, other: str) -> tuple[str, str]:
    return (one, other) if one <= other else (other, one)


class _Seen:
    """What is counted in trees."""

    def __init__(self) -> None:
        self.heads = 0
        self.labels, self.upos = Counter[str](), Counter[str]()
        self.below = Counter[str]()
        """Without those of arcs from ROOT."""
        self.on_heads = Counter[str]()
        """How many heads have a dependent with each label."""
        self.tags, self.parents, self.siblings = (Counter[tuple[str, str]]() for _ in range(3))
        self.before = Counter[str]()
        """How often words with each label precede their heads."""

        self.filled = Counter[str]()
        """How many words have a value in each column."""
        self.values: dict[tuple[str, str], set[str]] = {}
        """By label and column; of two or more values, only two."""

    def add(self, sentence: Sentence) -> None:
        of_heads: dict[int, list[str]] = {}
        labels = ("", *sentence.labels)
        pairs = zip(sentence.heads, sentence.labels, strict=True)
        firsts = {head for head, label in pairs if label in OF_ONE_WORD}
        for word, (head, label, upos) in enumerate(
            zip(sentence.heads, sentence.labels, sentence.upos, strict=True), 1
        ):
            if head:
                self.parents[labels[head], label] += 1
                self.below[label] += 1
                self.before[label] += head > word
                of_heads.setdefault(head, []).append(label)
            if upos != BLANK and word not in firsts:
                self.tags[label, upos] += 1
                self.upos[upos] += 1
            self.labels[label] += 1
        for column in COLUMNS_OF_VALUES:
            for label, value in zip(sentence.labels, sentence.column(column), strict=True):
                self.filled[column] += value != BLANK
                values = self.values.setdefault((label, column), set())
                if len(values) < 2:
                    values.add(value)
        self.heads += len(of_heads)
        for own in of_heads.values():
            self.on_heads.update(set(own))
            self.siblings.update({_ordered(one, other) for one, other in combinations(own, 2)})

    def constraints(self) -> LearnedConstraints:
        below = [label for label, count in self.below.items() if count >= LEAST_EXPECTED]
        return LearnedConstraints(
            tags=_missing(self.tags, self.labels, self.upos, self.upos.total()),
            parents=_missing(self.parents, self.labels, self.below, self.labels.total()),
            siblings=frozenset(
                (one, other)
                for one, other in combinations_with_replacement(sorted(below), 2)
                if not self.siblings[one, other]
                and self.on_heads[one] * self.on_heads[other] / (2 if one == other else 1)
                >= LEAST_EXPECTED * self.heads
            ),
            following=frozenset(label for label in below if not self.before[label]),
            preceding=frozenset(label for label in below if self.before[label] == self.below[label]),
            values=self._only_values(),
        )

    def _only_values(self) -> dict[str, dict[str, str]]:
        only: dict[str, dict[str, str]] = {}
        least = LEAST_FILLED * self.labels.total()
        known = {column for column, count in self.filled.items() if count >= least}
        for (label, column), values in self.values.items():
            if column in known and len(values) == 1 and self.labels[label] >= LEAST_WITH_VALUE:
                only.setdefault(label, {})[column] = next(iter(values))
        return only


def _missing(
    seen: Mapping[tuple[str, str], int], first: Mapping[str, int], second: Mapping[str, int], total: int
) -> Pairs:
    """The pairs that are not seen, of values that should make them often enough."""
    return frozenset(
        (one, other)
        for one, count in first.items()
        for other, of_other in second.items()
        if not seen.get((one, other)) and count * of_other >= LEAST_EXPECTED * total
    )


class _ConstraintsContent(BaseModel):
    """The JSON of constraints."""

    model_config = ConfigDict(strict=True, extra="forbid")

    tags: list[tuple[str, str]]
    parents: list[tuple[str, str]]
    siblings: list[tuple[str, str]]
    following: list[str]
    preceding: list[str]
    values: dict[str, dict[str, str]]
