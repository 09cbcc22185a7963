"""Conditions on trees: given arcs and labels, at most one dependent with a label, words that are no root.

Given arcs and labels stay, whatever the parser would prefer. The other conditions are broken if the parser
has no other choice left, and the parsed tree lists the violations.

A word whose head is given gets no label of lifted words, which would move it to another head after parsing.
A word whose label alone is given can be lifted: it gets the label back when it is moved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from parser.models.model import Model
from parser.parsing.options import ParseOptions
from parser.parsing.parsed_tree import Arcs
from parser.system.console import listed, quoted
from parser.transitions.given_arcs import WordFacts, word_facts
from parser.treebank.conllu import SentenceCheck
from parser.treebank.conllu_faults import Fault, cycles
from parser.treebank.partial_trees import possible_roots, put_back
from parser.treebank.sentence import BLANK, MARK, NO_HEAD, Sentence, without_subtype
from parser.treebank.set_aside import set_aside
from parser.treebank.vocabulary import Vocabulary

ANY_LABEL, UNLIFTED = 0, 1
"""Rows of `LabelChoices.table`. Two rows for each label follow: that label alone, and that label or one of
lifted words that becomes it."""
OF_LABELS = 2


@dataclass(frozen=True)
class LabelChoices:
    """The labels that the arc to a word can have if its label or its head is given."""

    strings: Sequence[str]
    """All labels, starting with number 1."""
    word_labels: frozenset[int]
    root_labels: frozenset[int]

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> LabelChoices:
        return cls(vocabulary.labels.strings, vocabulary.word_labels, vocabulary.root_labels)

    @cached_property
    def _numbers(self) -> dict[str, list[int]]:
        """For each label without mark, its number, if it has one, and those of its lifted forms."""
        numbers: dict[str, list[int]] = {}
        for number, label in enumerate(self.strings, 1):
            numbers.setdefault(label.partition(MARK)[0], []).append(number)
        return numbers

    @cached_property
    def _number(self) -> dict[str, int]:
        return {label: number for number, label in enumerate(self.strings, 1)}

    @cached_property
    def table(self) -> NDArray[np.bool_]:
        """[rows, labels] Which labels arcs can have."""
        is_unlifted = np.array([MARK not in label for label in ("", *self.strings)])
        table = np.zeros((OF_LABELS + 2 * len(is_unlifted), len(is_unlifted)), bool)
        table[ANY_LABEL], table[UNLIFTED] = True, is_unlifted
        for number, label in enumerate(self.strings, 1):
            table[OF_LABELS + 2 * number, number] = True
            table[OF_LABELS + 2 * number + 1, self._numbers[label.partition(MARK)[0]]] = True
        return table

    @staticmethod
    def exact_label(row: int) -> int:
        """The number of the only label of a row; 0 for rows with several."""
        return (row - OF_LABELS) // 2 if row >= OF_LABELS and row % 2 == 0 else 0

    def row(self, head: int, label: str) -> int:
        """The row of a word. head: the given head, or NO_HEAD. label: the given label, which fits, or `_`."""
        if label == BLANK:
            return ANY_LABEL if head == NO_HEAD else UNLIFTED
        if head == NO_HEAD:
            return OF_LABELS + 2 * self._numbers[label][0] + 1
        return OF_LABELS + 2 * self._number[label]

    def of_words(self, label: str) -> bool:
        """Whether arcs from words can have the label or a lifted form of it."""
        return not self.word_labels.isdisjoint(self._numbers.get(label, ()))

    def of_root(self, label: str) -> bool:
        """Whether the arc from ROOT can have the label."""
        return self._number.get(label) in self.root_labels

    def fits(self, head: int, label: str) -> bool:
        """Whether the arc from a head, or from any head for NO_HEAD, can have the label."""
        if head == NO_HEAD:
            return self.of_words(label) or self.of_root(label)
        return self.of_root(label) if head == 0 else self._number.get(label) in self.word_labels

    def known(self, of_root: bool) -> set[str]:
        """The labels of arcs from ROOT, or from words, without marks."""
        numbers = self.root_labels if of_root else self.word_labels
        return {self.strings[number - 1].partition(MARK)[0] for number in numbers}


LIFTED = 1 << 62
"""The bit of lifted dependents that count: their final heads are unknown until the tree is complete."""
MAX_LIMITS = 60
KEPT_LIMITS = 256
"""Lists of limits whose bits are kept. A bound is needed because strangers can keep sending new lists."""
SHOWN = 8
"""Labels shown in a message."""


class SentenceConstraints(NamedTuple):
    """The constraints of a sentence, for a model. Tuples start with word 1 unless stated otherwise."""

    heads: tuple[int, ...]
    """The given heads; NO_HEAD for words without one."""
    labels: tuple[str, ...]
    """The given labels; `_` for words without one."""
    kept_heads: tuple[int, ...]
    """The given heads, except those that are put back after parsing."""
    may_be_root: tuple[bool, ...]
    label_rows: tuple[int, ...]
    """See `LabelChoices`."""
    limits: tuple[int, ...]
    """The bits of each label, by its number: one for each limit that it counts for. Empty without limits."""
    at_most_one: tuple[str, ...]
    no_roots: tuple[bool, ...]
    """Words that must not be the root if another word can be."""

    @property
    def facts(self) -> list[WordFacts]:
        return word_facts(self.kept_heads, self.may_be_root)

    @property
    def counted(self) -> list[int]:
        """The bits of the dependents of each word that are known before parsing."""
        if not self.limits:
            return [0] * len(self.heads)
        bits = [LIFTED] * len(self.heads)
        for head, row in zip(self.heads, self.label_rows, strict=True):
            if head > 0 and (label := LabelChoices.exact_label(row)):
                bits[head - 1] |= self.limits[label]
        return bits

    @property
    def given_words(self) -> list[int]:
        """The words, from 1, whose head or label is given."""
        pairs = zip(self.heads, self.labels, strict=True)
        return [word for word, (head, label) in enumerate(pairs, 1) if head != NO_HEAD or label != BLANK]

    def possible_heads(self) -> NDArray[np.bool_]:
        """[n, n + 1] Which heads each word can have; the first is ROOT."""
        count = len(self.heads)
        possible = np.ones((count, count + 1), bool)
        possible[:, 0] = self.may_be_root
        for word, head in enumerate(self.kept_heads):
            if head != NO_HEAD:
                possible[word] = False
                possible[word, head] = True
        return possible

    def exceeded(self, arcs: Arcs) -> int:
        """The number of dependents that exceed a limit."""
        if not self.limits:
            return 0
        counts: Counter[tuple[int, int]] = Counter()
        lifted = 0
        for head, label in zip(arcs.heads, arcs.labels, strict=True):
            bits = self.limits[label]
            lifted += bool(bits & LIFTED)
            bits &= ~LIFTED
            while bits:
                counts[head, bits & -bits] += 1
                bits &= bits - 1
        return lifted + sum(count - 1 for count in counts.values())

    def completed(
        self, heads: Sequence[int], labels: Sequence[str]
    ) -> tuple[tuple[int, ...], tuple[str, ...], tuple[str, ...]]:
        """The heads and labels with everything that is given, and the broken constraints of each word, or "".

        heads, labels: those of the parsed tree, in which no word is lifted.
        """
        all_heads, parsed = put_back(heads, labels, self.heads)
        all_labels = [
            given if given != BLANK else label for label, given in zip(parsed, self.labels, strict=True)
        ]
        return tuple(all_heads), tuple(all_labels), self._violations(all_heads, all_labels)

    def with_certain(self, probabilities: Sequence[float]) -> Sequence[float]:
        """The probabilities of arcs, with 1 for those whose head and label are given."""
        words = zip(self.heads, self.labels, probabilities, strict=True)
        return [1.0 if head != NO_HEAD and label != BLANK else each for head, label, each in words]

    def _violations(self, heads: Sequence[int], labels: Sequence[str]) -> tuple[str, ...]:
        if not (self.at_most_one or any(self.no_roots)):
            return ()
        seen: set[tuple[int, str]] = set()
        violations = []
        for head, label, no_root in zip(heads, labels, self.no_roots, strict=True):
            counted = [(head, limit) for limit in self.at_most_one if counts_for(label, limit)]
            broken = [f"at-most-one:{limit}" for parent, limit in counted if (parent, limit) in seen]
            broken += ["not-root"] if no_root and not head else []
            seen.update(counted)
            violations.append(",".join(broken))
        return tuple(violations) if any(violations) else ()


def counts_for(label: str, limit: str) -> bool:
    """Whether a dependent with the label counts for the limit."""
    return label == limit or without_subtype(label) == limit


class _Given(NamedTuple):
    """What is given for a sentence; tuples start with word 1."""

    has_any: bool
    heads: tuple[int, ...]
    labels: tuple[str, ...]
    kept_heads: tuple[int, ...]
    may_be_root: tuple[bool, ...]
    faults: list[tuple[int, str]]
    """Words, each with a message. If there are any, the other fields are incomplete."""


class ConstraintReader:
    """Reads the constraints of sentences for a model."""

    def __init__(self, model: Model):
        self._vocabulary, self._system = model.vocabulary, model.transitions.system
        self._lexicons = [
            lexicon
            for each in model.members
            for columns in (each.vocabulary.columns, each.vocabulary.predicted)
            if (lexicon := columns.get("upos"))
        ]
        self._limits: dict[tuple[str, ...], tuple[int, ...]] = {}

    @cached_property
    def choices(self) -> LabelChoices:
        return LabelChoices.of(self._vocabulary)

    def refuse_unable(self, wanted: ParseOptions, keeps: bool) -> None:
        """Raises ValueError if the model cannot do what is asked for. keeps: whether given arcs are kept."""
        if (keeps or wanted.not_root) and not self._system.keeps_given_arcs:
            raise ValueError(
                f"a parser with {self._system.name} cannot tell which transitions keep given arcs or a root "
                "possible: train one with parser.system arc-hybrid or arc-eager"
            )
        if len(wanted.at_most_one) > MAX_LIMITS:
            raise ValueError(
                f"at most one: {len(wanted.at_most_one)} labels; at most {MAX_LIMITS} can be limited"
            )
        for limit in wanted.at_most_one:
            if not any(counts_for(label, limit) for label in self._unmarked_labels):
                raise ValueError(f"at most one {quoted(limit)}: {_unknown_label(self._unmarked_labels)}")
        for tag in wanted.not_root:
            if self._lexicons and not any(lexicon.number(tag) for lexicon in self._lexicons):
                known = sorted({each for lexicon in self._lexicons for each in lexicon.strings})
                raise ValueError(
                    f"not root {quoted(tag)}: the model knows no such UPOS, but {listed(known, SHOWN)}"
                )

    @cached_property
    def _unmarked_labels(self) -> set[str]:
        """The labels without the marks of lifted words; cached, as each sentence with limits needs them."""
        return {label.partition(MARK)[0] for label in self._vocabulary.labels.strings}

    def check(self, wanted: ParseOptions) -> SentenceCheck | None:
        """A check that returns the faults of a sentence of a file; None if nothing given is kept."""
        if not wanted.keep:
            return None

        def faults(sentence: Sentence) -> list[Fault]:
            return [
                Fault(sentence.line + sentence.word_lines[word - 1], sentence.identifier, message)
                for word, message in self.faults(sentence, wanted)
            ]

        return faults

    def faults(self, sentence: Sentence, wanted: ParseOptions) -> list[tuple[int, str]]:
        """The words whose given heads or labels allow no tree, each with a message."""
        return self._given(sentence, wanted).faults

    def read(
        self, sentence: Sentence, wanted: ParseOptions, tags: Mapping[str, Sequence[str]]
    ) -> SentenceConstraints | None:
        """The constraints of a sentence; None if all trees satisfy them.

        tags: the predicted tags, by column. Raises ValueError for constraints that model or sentence rules
        out.
        """
        given = self._given(sentence, wanted)
        if not (given.has_any or wanted.at_most_one or wanted.not_root):
            return None
        self.refuse_unable(wanted, given.has_any)
        for word, message in given.faults:
            raise ValueError(f"sentence {sentence.identifier}: word {word}: {message}")
        no_roots = self._no_roots(sentence, wanted, tags)
        wanted_roots = tuple(may and not no for may, no in zip(given.may_be_root, no_roots, strict=True))
        return SentenceConstraints(
            heads=given.heads,
            labels=given.labels,
            kept_heads=given.kept_heads,
            may_be_root=wanted_roots if any(wanted_roots) else given.may_be_root,
            label_rows=tuple(
                ANY_LABEL if head != kept else self.choices.row(head, label)
                for head, kept, label in zip(given.heads, given.kept_heads, given.labels, strict=True)
            ),
            limits=self._limits_of(wanted.at_most_one),
            at_most_one=wanted.at_most_one,
            no_roots=no_roots,
        )

    def _given(self, sentence: Sentence, wanted: ParseOptions) -> _Given:
        count = len(sentence)
        has_any = sentence.heads.count(NO_HEAD) < count or sentence.labels.count(BLANK) < count
        if not wanted.keep or not has_any:
            free = (NO_HEAD,) * count
            return _Given(False, free, (BLANK,) * count, free, (True,) * count, [])
        faults, aside = self._label_faults(sentence), []
        heads = tuple(  # a label that only the root can have gives the head, too
            0
            if head == NO_HEAD and self.choices.of_root(label) and not self.choices.of_words(label)
            else head
            for head, label in zip(sentence.heads, sentence.labels, strict=True)
        )
        may_be_root: tuple[bool, ...] = ()
        roots = [word for word, head in enumerate(heads, 1) if head == 0]
        if len(roots) > 1:
            message = (
                f"the words {listed(roots, SHOWN)} are all given as the root, by HEAD 0 or by their labels"
            )
            faults.append((roots[1], f"{message}; leave out all but one"))
        for cycle in cycles(heads):
            faults.append((cycle[0], f"the heads of the words {listed(cycle, SHOWN)} form a cycle"))
        if not faults:
            aside = set_aside(heads)
            if wanted.non_projective == "refuse":
                faults += [(word, _crossing(word, heads[word - 1])) for word in aside]
        kept = tuple(NO_HEAD if word in aside else head for word, head in enumerate(heads, 1))
        if not faults:
            may_be_root = self._may_be_root(sentence.labels, kept, aside)
            if not any(may_be_root):
                faults.append((1, "no word can be the root: all have other heads or labels"))
        return _Given(True, heads, sentence.labels, kept, may_be_root, faults)

    def _label_faults(self, sentence: Sentence) -> list[tuple[int, str]]:
        faults = []
        for word, (head, label) in enumerate(zip(sentence.heads, sentence.labels, strict=True), 1):
            if label != BLANK and not self.choices.fits(head, label):
                what = f"DEPREL {quoted(label)}{' for the root' if head == 0 else ''}"
                faults.append((word, f"{what}: {_unknown_label(self.choices.known(of_root=head == 0))}"))
        return faults

    def _may_be_root(
        self, labels: Sequence[str], kept: Sequence[int], aside: Sequence[int]
    ) -> tuple[bool, ...]:
        """Whether each word can be the root.

        aside: words that get other heads afterwards, and are not the root if another word can be.
        """
        fitting = tuple(
            may and (label == BLANK or self.choices.of_root(label))
            for may, label in zip(possible_roots(kept), labels, strict=True)
        )
        first = tuple(may and word not in aside for word, may in enumerate(fitting, 1)) if aside else fitting
        return first if any(first) else fitting

    def _no_roots(
        self, sentence: Sentence, wanted: ParseOptions, tags: Mapping[str, Sequence[str]]
    ) -> tuple[bool, ...]:
        if not wanted.not_root:
            return (False,) * len(sentence)
        predicted = tags.get("upos", sentence.upos)
        pairs = zip(sentence.upos, predicted, strict=True)
        upos = [given if given != BLANK else tag for given, tag in pairs]
        if "upos" not in tags and all(tag == BLANK for tag in upos):
            raise ValueError(
                f"sentence {sentence.identifier}: no word has a UPOS, which says what is not root, and the "
                "model predicts none"
            )
        return tuple(tag in wanted.not_root for tag in upos)

    def _limits_of(self, at_most_one: tuple[str, ...]) -> tuple[int, ...]:
        """See `SentenceConstraints.limits`."""
        if at_most_one and at_most_one not in self._limits:
            if len(self._limits) == KEPT_LIMITS:
                self._limits.clear()
            bits = [0]
            for label in self._vocabulary.labels.strings:
                name, mark, _ = label.partition(MARK)
                counted = [1 << bit for bit, limit in enumerate(at_most_one) if counts_for(name, limit)]
                bits.append((LIFTED if mark and counted else 0) | (0 if mark else sum(counted)))
            self._limits[at_most_one] = tuple(bits)
        return self._limits.get(at_most_one, ())


def _crossing(word: int, head: int) -> str:
    return (
        f"no projective tree has the arc from word {head} to word {word} beside the other given ones: arcs "
        "would cross; leave out this head, or set non-projective to `given`, which puts the arc back after "
        "parsing"
    )


def _unknown_label(known: Sequence[str] | set[str]) -> str:
    return f"the model knows no such label, but {listed(sorted(known), SHOWN)}"
