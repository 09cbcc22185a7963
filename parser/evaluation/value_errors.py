"""Which tags, features, lemmas and labels are wrong, and which values of them the training treebank lacks."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from parser.evaluation.known import DEPREL, KnownValues
from parser.evaluation.scores import universal_features
from parser.evaluation.tally import Example, Tally
from parser.parsing.parsed_tree import ParsedTree
from parser.parsing.predicted_tags import LEMMA
from parser.treebank.sentence import BLANK, WORD_COLUMNS, Sentence, without_subtype
from parser.treebank.vocabulary import predicted_strings_of

FEATURES = "feats"
KNOWN_FORM, UNKNOWN_FORM, LACKING = "known form", "unknown form", "value that training lacks"
VALUE_GROUPS = KNOWN_FORM, UNKNOWN_FORM, LACKING
"""In each column, the last group has the words whose gold value no model can predict, whatever their form."""
MISSING, EXTRA, OTHER_VALUE = "missing", "extra", "other value"
ABSENT = "none"
OF_FORM = "known form, training has the gold lemma for it"
NOT_OF_FORM = "known form, training has only other lemmas for it"
TRAINED_LEMMA = "unknown form, predicted a lemma of training"
NEW_LEMMA = "unknown form, predicted a lemma that training lacks"
IS_RIGHT: dict[str, Callable[[str, str], bool]] = {
    DEPREL: lambda gold, parsed: without_subtype(gold) == without_subtype(parsed),
    FEATURES: lambda gold, parsed: universal_features(gold) == universal_features(parsed),
    LEMMA: lambda gold, parsed: gold in (BLANK, parsed),
}
"""Whether the scores count a value as right; values of other columns have to be the same."""


def title_of(column: str) -> str:
    """The name of a column in CoNLL-U."""
    return "DEPREL" if column == DEPREL else WORD_COLUMNS[column].title


@dataclass
class ValueGroup:
    words: int = 0
    right: int = 0

    @property
    def percent(self) -> float:
        return 100 * self.right / self.words if self.words else 0.0


def _groups() -> dict[str, ValueGroup]:
    return {name: ValueGroup() for name in VALUE_GROUPS}


@dataclass
class ValueErrors:
    """The errors in the labels and in the columns that the parser predicts.

    Words whose gold value training lacks are only in `groups` and `lacking`.
    """

    groups: defaultdict[str, dict[str, ValueGroup]] = field(default_factory=lambda: defaultdict(_groups))
    """The groups of words of each column, see `VALUE_GROUPS`. Labels count whatever the head is."""
    confusions: defaultdict[str, Tally] = field(default_factory=lambda: defaultdict(Tally))
    """The gold and the parsed value of wrong tags and lemmas, by column."""
    features: Tally = field(default_factory=Tally)
    """The attribute, the gold and the parsed value of wrong features, universal or not; `ABSENT` where one
    of the two has none.
    """
    lemma_kinds: Tally = field(default_factory=Tally)
    """The kind of each wrong lemma, see `lemma_kind`."""
    lacking: defaultdict[str, Tally] = field(default_factory=lambda: defaultdict(Tally))
    """By column, the gold values that training lacks, of right and wrong words: labels, tags, all features
    together, and lemmas that none of its rules makes.
    """

    def add(
        self, gold: Sentence, tree: ParsedTree, number: int, scored: Collection[int], known: KnownValues
    ) -> None:
        """Add words of a sentence. number: that of the sentence. scored: the indices of the words."""
        columns = {DEPREL: (gold.labels, gold.labels, tree.labels)}
        for column, parsed in tree.tags.items():
            columns[column] = gold.column(column), predicted_strings_of(gold, column), parsed
        for word in scored:
            form = gold.forms[word]
            example, is_known = Example(form, number, gold.identifier, gold.line), known.is_form(form)
            for column, (values, predicted, others) in columns.items():
                value, other = values[word], others[word]
                is_right = IS_RIGHT.get(column, str.__eq__)(value, other)
                is_lacking = known.lacks(column, predicted[word]) and (column, value) != (LEMMA, BLANK)
                group = self.groups[column][LACKING if is_lacking else VALUE_GROUPS[not is_known]]
                group.words += 1
                group.right += is_right
                if is_lacking:
                    self.lacking[column].add((value,), example, is_known)
                elif column == FEATURES:
                    for difference in different_features(value, other):
                        self.features.add(difference, example, is_known)
                elif column != DEPREL and not is_right:
                    self.confusions[column].add((value, other), example, is_known)
                    if column == LEMMA:
                        self.lemma_kinds.add((lemma_kind(form, value, other, known),), example, is_known)

    def attributes(self) -> dict[str, Counter[str]]:
        """For each attribute that is wrong, how many words lack it, have it wrongly, or have another value;
        and how many of them are unknown forms. Those with the most errors come first.
        """
        counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for kind, words in self.features.counts.items():
            attribute, gold, parsed = kind
            difference = EXTRA if gold == ABSENT else MISSING if parsed == ABSENT else OTHER_VALUE
            counts[attribute][difference] += words
            counts[attribute][UNKNOWN_FORM] += self.features.unknown[kind]
        wrong = {name: each.total() - each[UNKNOWN_FORM] for name, each in counts.items()}
        return {name: counts[name] for name in sorted(counts, key=lambda name: (-wrong[name], name))}

    def as_dict(self) -> dict[str, Any]:
        return {
            "values": {
                column: {
                    name: {"words": group.words, "percent": group.percent} for name, group in groups.items()
                }
                for column, groups in self.groups.items()
            },
            "confusions": {
                column: list(tally.as_rows("gold", "parsed")) for column, tally in self.confusions.items()
            },
            "features": list(self.features.as_rows("attribute", "gold", "parsed")),
            "lemma_kinds": list(self.lemma_kinds.as_rows("kind")),
            "lacking": {column: list(tally.as_rows("gold")) for column, tally in self.lacking.items()},
        }


def different_features(gold: str, parsed: str) -> Iterator[tuple[str, str, str]]:
    """Yield the name and both values of each attribute whose values differ; `ABSENT` for none."""
    first, second = _values(gold), _values(parsed)
    for name in sorted(first | second):
        pair = first.get(name, ABSENT), second.get(name, ABSENT)
        if pair[0] != pair[1]:
            yield name, *pair


def _values(features: str) -> dict[str, str]:
    parts = () if features == BLANK else features.split("|")
    return {name: value for name, _, value in (part.partition("=") for part in parts)}


def lemma_kind(form: str, gold: str, parsed: str, known: KnownValues) -> str:
    """The kind of a wrong lemma. Models that do not tell the lemmas of forms have two kinds, by the form."""
    if known.is_form(form):
        if not known.lemmas:
            return KNOWN_FORM
        return OF_FORM if gold in known.lemmas.get(form, ()) else NOT_OF_FORM
    if not known.lemmas:
        return UNKNOWN_FORM
    return TRAINED_LEMMA if known.is_lemma(parsed) else NEW_LEMMA
