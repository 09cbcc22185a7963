"""The tags, features and lemmas of words, chosen together from the scores of all models."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import accumulate, chain, pairwise

import numpy as np

from parser.parsing.unseen_lemmas import UnseenLemmas
from parser.runtime.layers import softmax
from parser.runtime.reference import Floats
from parser.treebank.analyses import NO_VALUE, Analyses, Combination
from parser.treebank.lemma_rules import lemma_of
from parser.treebank.sentence import WORD_COLUMNS, Sentence
from parser.treebank.vocabulary import UNKNOWN, Lexicon, Vocabulary

TagScores = Mapping[str, Floats]
"""[W, lexicon] A model's scores of the values of each column that it predicts."""
UPOS, LEMMA = "upos", "lemma"
LEAST_PROBABILITY = np.float32(1e-30)
"""A probability of zero has no logarithm."""
MOST_RULES = 8


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
        self._seen = SeenAnalyses(analyses, first) if has_all else None

    def __call__(
        self, of_models: Sequence[TagScores], sentences: Sequence[Sentence]
    ) -> list[Mapping[str, tuple[str, ...]]]:
        """For each sentence, the values of all words by column. of_models: the scores by each model."""
        forms = list(chain.from_iterable(sentence.forms for sentence in sentences))
        scores = {name: self._together(name, of_models) for name in self._values}
        best: Iterable[Sequence[int]]
        lemmas: Mapping[int, str] = {}
        if self._seen:
            combinations = self._seen.best(list(scores.values()), forms)
            lemmas = self._seen.unseen_lemmas(list(scores.values()), forms, combinations)
            best = zip(*combinations, strict=True) if forms else [()] * len(scores)
        else:
            best = (of_column.argmax(1).tolist() for of_column in scores.values())
        strings = {}
        for (name, values), numbers in zip(self._values.items(), best, strict=True):
            chosen = [values[number] for number in numbers]
            is_rule = WORD_COLUMNS[name].kind == "word"
            strings[name] = list(map(lemma_of, forms, chosen)) if is_rule else chosen
        for word, lemma in lemmas.items():
            strings[LEMMA][word] = lemma
        ends = accumulate(map(len, sentences), initial=0)
        return [
            {name: tuple(values[start:end]) for name, values in strings.items()}
            for start, end in pairwise(ends)
        ]

    def probabilities(
        self,
        of_models: Sequence[TagScores],
        sentences: Sequence[Sentence],
        chosen: Sequence[Mapping[str, Sequence[str]]],
    ) -> list[dict[str, tuple[float, ...]]]:
        """For each sentence, the probabilities of the chosen values, before they are calibrated.

        Several rules can make the same lemma: of the `MOST_RULES` most probable ones, those that do add up.
        """
        forms = list(chain.from_iterable(sentence.forms for sentence in sentences))
        of_columns = {}
        for name, values in self._values.items():
            shares = softmax(self._together(name, of_models))  # [W, values]
            words = chain.from_iterable(of_sentence[name] for of_sentence in chosen)
            if WORD_COLUMNS[name].kind == "word":
                best = np.argsort(-shares, axis=1, kind="stable")[:, :MOST_RULES].tolist()
                of_columns[name] = [
                    sum(row[rule] for rule in rules if lemma_of(form, values[rule]) == lemma)
                    for form, lemma, rules, row in zip(forms, words, best, shares.tolist(), strict=True)
                ]
            else:
                numbers = {value: number for number, value in enumerate(values)}
                of_columns[name] = shares[np.arange(len(forms)), [numbers[value] for value in words]].tolist()
        ends = accumulate(map(len, sentences), initial=0)
        return [
            {name: tuple(values[start:end]) for name, values in of_columns.items()}
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
        return np.log(np.maximum(sums, LEAST_PROBABILITY))


class SeenAnalyses:
    """Chooses combinations of values that training has seen.

    A word gets the one with the greatest sum of scores among those with its best UPOS and those that its form
    has had, which get a bonus. If the form has had lemmas with the UPOS that is chosen, the lemma is one of
    them; else see `UnseenLemmas`. Mostly the best value of each column is all that, so words are chosen one
    after the other.
    """

    def __init__(self, analyses: Analyses, columns: Mapping[str, Lexicon]):
        """columns: the predicted columns, in the order of the combinations."""
        self._analyses, names = analyses, list(columns)
        self._upos, self._lemma = (names.index(name) if name in names else None for name in (UPOS, LEMMA))
        self._number = {combination: number for number, combination in enumerate(analyses.combinations)}
        self._of_upos: dict[int | None, list[Combination]] = {}
        for combination in analyses.combinations:
            self._of_upos.setdefault(self._upos_of(combination), []).append(combination)
        self._values_of_upos = {upos: np.array(own).T for upos, own in self._of_upos.items()}
        self._known_tags: dict[str, set[int | None]] = {}
        """See `_tags_with_lemma`; not more forms than training has."""
        self._unseen = None
        if self._lemma is not None:
            words = [
                (form, self._upos_of(each), each[self._lemma])
                for form, each in analyses.words_with(self._lemma)
            ]
            self._unseen = UnseenLemmas(words, columns[LEMMA].strings)

    def best(self, scores: Sequence[Floats], forms: Sequence[str]) -> list[Combination]:
        """The combination of each word. scores: [W, values] of each column."""
        best = zip(*(of_column.argmax(1).tolist() for of_column in scores), strict=True)
        chosen = []
        for word, (form, combination) in enumerate(zip(forms, best, strict=True)):
            number = self._number.get(combination)
            own = self._analyses.of_form.get(form, ())
            if number is None or (own and number not in own):
                combination = self._chosen([of_column[word] for of_column in scores], combination, own)
            chosen.append(combination)
        return chosen

    def unseen_lemmas(
        self, scores: Sequence[Floats], forms: Sequence[str], chosen: Sequence[Combination]
    ) -> dict[int, str]:
        """The lemmas of words whose form training has not seen with the chosen UPOS. chosen: see `best`."""
        if self._unseen is None or self._lemma is None:
            return {}
        rows, words = [], []
        for row, (form, combination) in enumerate(zip(forms, chosen, strict=True)):
            upos = self._upos_of(combination)
            if upos not in self._tags_with_lemma(form):
                rows.append(row)
                words.append((form, upos))
        lemmas = self._unseen.lemmas(words, scores[self._lemma][rows]) if rows else []
        return dict(zip(rows, lemmas, strict=True))

    def _tags_with_lemma(self, form: str) -> Collection[int | None]:
        """The UPOS with which training has lemmas of a form."""
        own = self._analyses.of_form.get(form)
        if not own or self._lemma is None:
            return ()
        known = self._known_tags.get(form)
        if known is None:
            combinations = map(self._analyses.combinations.__getitem__, own)
            known = {self._upos_of(each) for each in combinations if each[self._lemma] != NO_VALUE}
            self._known_tags[form] = known
        return known

    def _chosen(self, scores: Sequence[Floats], best: Combination, own: Sequence[int]) -> Combination:
        """The combination of a word.

        scores: [values] of each column. best: their best values. own: the combinations of its form.
        """
        # The index `NO_VALUE` finds the greatest score.
        scores = [np.append(of_column, of_column.max()) for of_column in scores]

        def total(combination: Combination) -> float:
            return sum(of_column.item(value) for of_column, value in zip(scores, combination, strict=True))

        upos = self._upos_of(best)
        if best not in self._number and upos in self._of_upos:
            columns = zip(scores, self._values_of_upos[upos], strict=True)
            best = self._of_upos[upos][int(sum(of_column[values] for of_column, values in columns).argmax())]
        if not own:
            return best
        known = [self._analyses.combinations[number] for number in own]
        best_known = max(known, key=total)
        if total(best_known) + self._analyses.bonus >= total(best):
            best = best_known
        if self._lemma is None:
            return best
        at, upos = self._lemma, self._upos_of(best)
        rules = [each[at] for each in known if self._upos_of(each) == upos and each[at] != NO_VALUE]
        return (*best[:at], max(rules or [best[at]], key=scores[at].item), *best[at + 1 :])

    def _upos_of(self, combination: Combination) -> int | None:
        return None if self._upos is None else combination[self._upos]
