"""The tags, features and lemmas that models choose together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, chain, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from parser.runtime.layers import softmax
from parser.runtime.reference import Floats
from parser.treebank.lemma_rules import lemma_of
from parser.treebank.sentence import WORD_COLUMNS, Sentence
from parser.treebank.vocabulary import UNKNOWN, Vocabulary


class Vote(NamedTuple):
    """The prediction of one model for a column."""

    values: tuple[str, ...]
    best: NDArray[np.integer]
    """[words] The index of the value of each word that the model prefers."""
    probabilities: NDArray[np.floating] | None
    """[words, values] None if only one model votes."""


def votes_of(vocabulary: Vocabulary, tag_scores: Mapping[str, Floats], is_only: bool) -> dict[str, Vote]:
    """The votes of a model, by column.

    tag_scores: [W, lexicon] by column. is_only: whether no other model votes.
    """
    votes = {}
    for name, scores in tag_scores.items():
        known = scores[:, UNKNOWN + 1 :]
        shares = None if is_only else softmax(known)
        votes[name] = Vote(vocabulary.predicted[name].strings, known.argmax(1), shares)
    return votes


def _chosen(votes: Sequence[Vote]) -> list[str]:
    """The value of each word with the highest mean probability.

    The models may know different values, which are matched as strings. A value that a model does not know
    gets no probability from it.
    """
    if len(votes) == 1:
        [vote] = votes
        return [vote.values[number] for number in vote.best.tolist()]
    values = tuple(dict.fromkeys(chain.from_iterable(vote.values for vote in votes)))
    column = {value: number for number, value in enumerate(values)}
    sums = np.zeros((len(votes[0].best), len(values)), np.float32)
    for vote in votes:
        assert vote.probabilities is not None
        sums[:, [column[value] for value in vote.values]] += vote.probabilities
    return [values[number] for number in sums.argmax(1).tolist()]


def predicted_tags(
    of_models: Sequence[Mapping[str, Vote]], sentences: Sequence[Sentence]
) -> list[Mapping[str, tuple[str, ...]]]:
    """For each sentence, the values of all words by column. of_models: each model's votes on all words."""
    names = dict.fromkeys(chain.from_iterable(of_models))
    strings = {name: _chosen([votes[name] for votes in of_models if name in votes]) for name in names}
    for name in strings:
        if WORD_COLUMNS[name].kind == "word":
            forms = chain.from_iterable(sentence.forms for sentence in sentences)
            strings[name] = list(map(lemma_of, forms, strings[name]))
    ends = accumulate(map(len, sentences), initial=0)
    return [
        {name: tuple(values[start:end]) for name, values in strings.items()} for start, end in pairwise(ends)
    ]
