"""What the training treebanks of models have: other forms are unknown, and other values never predicted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain

from parser.models.model import Model
from parser.parsing.predicted_tags import LEMMA
from parser.treebank.lemma_rules import lemma_of
from parser.treebank.sentence import MARK
from parser.treebank.vocabulary import UNKNOWN, Vocabulary

DEPREL = "deprel"


@dataclass(frozen=True)
class KnownValues:
    is_form: Callable[[str], bool]
    """Whether a form is in the training treebanks."""
    values: Mapping[str, Collection[str]] = field(default_factory=dict)
    """The values that can be predicted, by column: labels, tags, features together, and rules of lemmas. All
    values of other columns can."""
    lemmas: Mapping[str, Collection[str]] = field(default_factory=dict)
    """The lemmas of each form in the training treebanks; empty if the models do not tell."""

    @classmethod
    def of(cls, *models: Model) -> KnownValues:
        """What the models have: the forms that all of them know, and the values that any of them predicts."""
        lexicons = [model.vocabulary.columns["form"] for model in models]
        values: defaultdict[str, set[str]] = defaultdict(set)
        lemmas: defaultdict[str, set[str]] = defaultdict(set)
        for vocabulary in (each.vocabulary for model in models for each in model.members):
            values[DEPREL].update(label.partition(MARK)[0] for label in vocabulary.labels.strings)
            for column, lexicon in vocabulary.predicted.items():
                values[column].update(lexicon.strings)
            for form, own in _lemmas_in(vocabulary).items():
                lemmas[form] |= own
        return cls(
            lambda form: all(forms.number(form) != UNKNOWN for forms in lexicons), dict(values), dict(lemmas)
        )

    def lacks(self, column: str, value: str) -> bool:
        """Whether no model can predict the value."""
        return column in self.values and value not in self.values[column]

    def is_lemma(self, lemma: str) -> bool:
        """Whether the lemma is that of any form in the training treebanks."""
        return lemma in self._all_lemmas

    @cached_property
    def _all_lemmas(self) -> frozenset[str]:
        return frozenset(chain.from_iterable(self.lemmas.values()))


def _lemmas_in(vocabulary: Vocabulary) -> dict[str, set[str]]:
    """The lemmas of each form of which the vocabulary has analyses."""
    columns, analyses = list(vocabulary.predicted), vocabulary.analyses
    if LEMMA not in columns:
        return {}
    rules, place = vocabulary.predicted[LEMMA].strings, columns.index(LEMMA)
    lemmas: dict[str, set[str]] = {}
    for form, combination in analyses.words_with(place):
        lemmas.setdefault(form, set()).add(lemma_of(form, rules[combination[place]]))
    return lemmas
