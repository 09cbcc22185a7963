"""Alternatives: the most probable heads of each word by the scorers of arcs, with the best label of each.

They are found for each word on its own: those of all words together need not form a tree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from parser.models.model import Model
from parser.parsing.constraints import SentenceConstraints
from parser.parsing.parsed_tree import Alternative
from parser.parsing.reparsing import ArcsOfSentence, Reparser, SecondOpinion
from parser.treebank.sentence import BLANK, MARK

Alternatives = tuple[tuple[Alternative, ...], ...]


class Wanted(NamedTuple):
    opinion: SecondOpinion
    """The opinion on the sentence."""
    heads: int
    """Most alternatives of each word. Heads with a probability of 0 are left out."""
    constraints: SentenceConstraints | None


def alternatives(reparser: Reparser, wanted: Sequence[Wanted]) -> list[Alternatives]:
    """The alternatives of the words of each sentence, the most probable first."""
    arcs = [_most_probable(own.opinion, own.heads) for own in wanted]
    labels = reparser.models[0].vocabulary.labels
    best = iter(reparser.label_scores(arcs).argmax(1).tolist())
    found = []
    for (opinion, words, heads), own in zip(arcs, wanted, strict=True):
        of_words: list[list[Alternative]] = [[] for _ in opinion.log_probabilities]
        for word, head in zip(words, heads, strict=True):
            probability = float(np.exp(opinion.log_probabilities[word, head]))
            label = labels.string(next(best)).partition(MARK)[0]  # without the mark of a lifted word
            given = own.constraints.labels[word] if own.constraints else BLANK
            of_words[word].append(Alternative(head, label if given == BLANK else given, probability))
        found.append(tuple(map(tuple, of_words)))
    return found


def refuse_without_scorer(model: Model) -> None:
    """Raises ValueError if the model has no scorer of arcs, which alternatives need."""
    if not any(each.network.arcs for each in model.members):
        raise ValueError(
            "alternatives need a model with a scorer of arcs: train one with parser.network.arcs"
        )


def as_text(found: Alternatives) -> Iterator[str]:
    """For each word, the text in MISC: `probability:head:label` of each alternative, separated by commas."""
    for of_word in found:
        yield ",".join(f"{own.probability:.4f}:{own.head}:{_escaped(own.label)}" for own in of_word)


def _escaped(label: str) -> str:
    return label.replace("%", "%25").replace(",", "%2C").replace("|", "%7C")


def _most_probable(opinion: SecondOpinion, count: int) -> ArcsOfSentence:
    logs = opinion.log_probabilities
    order = np.argsort(-logs, axis=1, kind="stable")[:, :count]  # [n, count]
    word, rank = np.nonzero(np.isfinite(np.take_along_axis(logs, order, 1)))
    return ArcsOfSentence(opinion, word.tolist(), order[word, rank].tolist())
