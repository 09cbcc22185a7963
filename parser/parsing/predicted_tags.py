"""The tags, features and lemmas of words, chosen together from the scores of all models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, chain, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from parser.runtime.layers import softmax
from parser.runtime.reference import Floats
from parser.treebank.analyses import Analyses
from parser.treebank.lemma_rules import lemma_of
from parser.treebank.sentence import WORD_COLUMNS, Sentence
from parser.treebank.vocabulary import UNKNOWN, Vocabulary

Integers = NDArray[np.integer]
TagScores = Mapping[str, Floats]
"""[W, lexicon] A model's scores of the values of each column that it predicts."""
UPOS, LEMMA = "upos", "lemma"
LEAST = np.float32(1e-30)
"""A probability of zero has no logarithm."""


class TagChoice:
    """Chooses the values of all predicted columns of a word together, as far as training has seen them.

    Without analyses, each column has the value with the highest score. Of several models, the scores are the
    logarithms of mean probabilities; a value that a model does not know gets no probability from it.
    """

    def __init__(self, vocabularies: Sequence[Vocabulary]):
        """vocabularies: of the models, whose values are matched as strings."""
        self._models = [vocabulary.predicted for vocabulary in vocabularies]
        columns = dict.fromkeys(chain.from_iterable(self._models))
        self._values = {
            name: tuple(
                dict.fromkeys(chain.from_iterable(own[name].strings for own in self._models if name in own))
            )
            for name in columns
        }
        first, analyses = self._models[0], vocabularies[0].analyses
        # Those of the first model serve an ensemble whose models predict the same columns.
        has_all = analyses.combinations and all(own.keys() == columns.keys() for own in self._models)
        self._seen = SeenAnalyses(analyses, list(first)) if has_all else None

    def __call__(
        self, of_models: Sequence[TagScores], sentences: Sequence[Sentence]
    ) -> list[Mapping[str, tuple[str, ...]]]:
        """For each sentence, the values of all words by column. of_models: the scores by each model."""
        forms = list(chain.from_iterable(sentence.forms for sentence in sentences))
        scores = {name: self._together(name, of_models) for name in self._values}
        if self._seen:
            best = self._seen.best(list(scores.values()), forms)
        else:
            best = [of_column.argmax(1) for of_column in scores.values()]
        strings = {}
        for (name, values), numbers in zip(self._values.items(), best, strict=True):
            chosen = [values[number] for number in numbers.tolist()]
            is_rule = WORD_COLUMNS[name].kind == "word"
            strings[name] = list(map(lemma_of, forms, chosen)) if is_rule else chosen
        ends = accumulate(map(len, sentences), initial=0)
        return [
            {name: tuple(values[start:end]) for name, values in strings.items()}
            for start, end in pairwise(ends)
        ]

    def _together(self, name: str, of_models: Sequence[TagScores]) -> Floats:
        """[W, values] The scores of a column by all models that predict it."""
        own = [
            (model[name].strings, scores[name][:, UNKNOWN + 1 :])
            for model, scores in zip(self._models, of_models, strict=True)
            if name in model
        ]
        if len(own) == 1:
            return own[0][1]
        column = {value: number for number, value in enumerate(self._values[name])}
        sums = np.zeros((len(own[0][1]), len(column)), np.float32)
        for values, scores in own:
            sums[:, [column[value] for value in values]] += softmax(scores)
        return np.log(np.maximum(sums, LEAST))


class SeenAnalyses:
    """Analyses as arrays.

    Each word gets the combination of training with the greatest sum of scores; those that its form has had
    get a bonus. If the form has had lemmas with the UPOS that is chosen, the lemma is one of them.
    """

    def __init__(self, analyses: Analyses, columns: Sequence[str]):
        """columns: the predicted columns, in the order of the combinations."""
        self._bonus = np.float32(analyses.bonus)
        self._upos, self._lemma = (columns.index(name) if name in columns else None for name in (UPOS, LEMMA))
        self._combinations = np.array(analyses.combinations, np.int64)  # [combinations, columns]
        self._number = {combination: number for number, combination in enumerate(analyses.combinations)}
        self._form = {form: number for number, form in enumerate(analyses.of_form)}
        counts = [len(own) for own in analyses.of_form.values()]
        self._count = np.array(counts, np.int64)
        self._start = np.cumsum(self._count) - self._count
        self._of_forms = np.fromiter(chain.from_iterable(analyses.of_form.values()), np.int64, sum(counts))

    def best(self, scores: Sequence[Floats], forms: Sequence[str]) -> list[Integers]:
        """[W] for each column: the chosen values. scores: [W, values] of each column."""
        chosen = self._best_of_all(scores)
        known = _Candidates.of(self, forms)
        if not len(known.words):
            return list(self._combinations[chosen].T)
        total = _sums(scores, np.arange(len(forms)), self._combinations[chosen])
        of_candidates = _sums(scores, known.word, self._combinations[known.combination])
        at = known.first_best(of_candidates)
        wins = of_candidates[at] + self._bonus >= total[known.words]
        chosen[known.words[wins]] = known.combination[at[wins]]
        best = list(self._combinations[chosen].T.copy())
        if self._lemma is not None:
            self._choose_known_lemmas(self._lemma, best, scores[self._lemma], known)
        return best

    def _best_of_all(self, scores: Sequence[Floats]) -> Integers:
        """[W] The combination with the greatest sum among those with the best UPOS."""
        best = np.stack([of_column.argmax(1) for of_column in scores], 1)
        chosen = np.array([self._number.get(tuple(each), -1) for each in best.tolist()], np.int64)
        rest = np.flatnonzero(chosen < 0)
        if len(rest):
            total = np.zeros((len(rest), len(self._combinations)), np.float32)
            for of_column, values in zip(scores, self._combinations.T, strict=True):
                total += of_column[rest][:, values]
            if self._upos is not None:
                total[best[rest, self._upos, None] != self._combinations[:, self._upos]] = -np.inf
            chosen[rest] = total.argmax(1)
        return chosen

    def _choose_known_lemmas(
        self, lemma: int, best: Sequence[Integers], scores: Floats, known: _Candidates
    ) -> None:
        """Replace the rules of lemmas by the best one that the form has had with the chosen UPOS, if any.

        lemma: the index of their column. scores: [W, rules]
        """
        values = self._combinations[known.combination]
        of_candidates = scores[known.word, values[:, lemma]]
        if self._upos is not None:
            fits = values[:, self._upos] == best[self._upos][known.word]
            of_candidates = np.where(fits, of_candidates, -np.inf)
        at = known.first_best(of_candidates)
        has_one = of_candidates[at] > -np.inf
        best[lemma][known.words[has_one]] = values[at[has_one], lemma]


class _Candidates(NamedTuple):
    """The combinations that the forms of words have had, of all known words one after the other."""

    words: Integers
    """[known] The indices of the words whose forms are known."""
    start: Integers
    """[known] The place of a word's first candidate."""
    word: Integers
    """[candidates] The index of the word."""
    combination: Integers
    """[candidates]"""

    @classmethod
    def of(cls, seen: SeenAnalyses, forms: Sequence[str]) -> _Candidates:
        numbers = np.array([seen._form.get(form, -1) for form in forms], np.int64)
        words = np.flatnonzero(numbers >= 0)
        counts = seen._count[numbers[words]]
        start = np.cumsum(counts) - counts
        places = np.arange(counts.sum()) + np.repeat(seen._start[numbers[words]] - start, counts)
        return cls(words, start, np.repeat(words, counts), seen._of_forms[places])

    def first_best(self, scores: Floats) -> Integers:
        """[known] The place of each word's first candidate with the greatest score. scores: [candidates]"""
        greatest = np.maximum.reduceat(scores, self.start)
        places = np.flatnonzero(scores == np.repeat(greatest, np.diff(self.start, append=len(scores))))
        _, first = np.unique(self.word[places], return_index=True)
        return places[first]


def _sums(scores: Sequence[Floats], words: Integers, combinations: Integers) -> Floats:
    """[n] The sum of the scores of a combination's values. words: [n]. combinations: [n, columns]"""
    columns = zip(scores, combinations.T, strict=True)
    total: Floats = sum(of_column[words, values] for of_column, values in columns)
    return total
