"""The BiLSTM taggers in DyNet, compared with ours: the same weights, batches and steps.

python scripts/studies/peers/dynet_tagger.py runs/peers/problems/tagger --dynet-autobatch 1

The script prints the loss of the first batch, next to our program's, and sentences per second.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import dynet as dy
from dynet_training import BiLSTM, Weights, arguments_of, time_training
from same_work import Problem


class Sentence(NamedTuple):
    words: list[int]
    labels: list[int]
    spellings: list[list[int]]
    """The characters of each word; none for a word that is looked up."""


def sentences_of(problem: Problem) -> list[Sentence]:
    spellings = iter(spelling.tolist() for spelling in problem.ragged("spellings"))
    return [
        Sentence(words.tolist(), labels.tolist(), [next(spellings) for _ in words])
        for words, labels in zip(problem.ragged("words"), problem.ragged("labels"), strict=True)
    ]


class Tagger:
    def __init__(self, weights: Weights, builder: str):
        self._words = weights.table("words.weight")
        self._reader = BiLSTM(weights, "reader", builder)
        self._scores = weights.linear("scores")
        self._middle = weights.linear("middle") if "middle.weight" in weights else None
        if "characters" in weights:
            self._characters = weights.table("characters")
            self._speller = BiLSTM(weights, "speller", builder)

    def loss(self, sentences: Sequence[Sentence]) -> dy.Expression:
        return dy.esum([loss for sentence in sentences for loss in self._losses(sentence)])

    def _losses(self, sentence: Sentence) -> list[dy.Expression]:
        words = map(self._word, sentence.words, sentence.spellings)
        left, right = self._reader.read(list(words))
        losses = []
        for forward, backward, label in zip(left, right, sentence.labels, strict=True):
            state = dy.concatenate([forward, backward])
            if self._middle:
                state = dy.tanh(dy.affine_transform([*self._middle, state]))
            losses.append(dy.pickneglogsoftmax(dy.affine_transform([*self._scores, state]), label))
        return losses

    def _word(self, word: int, spelling: list[int]) -> dy.Expression:
        if not spelling:
            return self._words[word]
        left, right = self._speller.read([self._characters[character] for character in spelling])
        return dy.concatenate([left[-1], right[0]])


if __name__ == "__main__":
    given = arguments_of(__doc__)
    problem = Problem(given.problem)
    weights = Weights(problem)
    time_training(Tagger(weights, given.builder).loss, sentences_of(problem), weights, given)
