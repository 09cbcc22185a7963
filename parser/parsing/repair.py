"""Changes trees that break learned constraints, as little as the scorers of arcs allow.

Of all arcs to a word that takes part in a broken constraint, the one is chosen that costs least: the greatest
log probability of head and label, among those that break fewer constraints. This is repeated until no
constraint is broken, or none can be mended. Given arcs and labels stay.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from parser.models.learned_constraints import ConstrainedTree, LearnedConstraints
from parser.models.model import Model
from parser.parsing.parsed_tree import Arcs
from parser.parsing.reparsing import ArcsOfSentence, Reparser
from parser.runtime.arcs import SecondOpinion
from parser.treebank.sentence import MARK

MOST_HEADS, MOST_ARCS = 4, 40
"""The most probable heads of a word, and arcs to it with labels, that are tried."""
MOST_CHANGES, MOST_WORDS = 32, 16
"""Of a tree, and the words whose arcs are compared for each change: a tree with more broken constraints is
not worth the time, in which other sentences wait."""


class Change(NamedTuple):
    loss: float
    """How much less probable the new arc is, as a difference of logarithms."""
    word: int
    head: int
    label: int
    probability: float
    """That of the new arc and its label, by the scorers."""


@dataclass(frozen=True)
class TreeRepair:
    constraints: LearnedConstraints
    reparser: Reparser
    strings: Sequence[str]
    """The labels by their numbers in trees; empty for those of lifted words, which have no constraints."""

    @classmethod
    def of(cls, model: Model, reparser: Reparser | None) -> TreeRepair | None:
        """None if the model has learned no constraints, or if its scorers of arcs change no trees."""
        if not (model.constraints and reparser and reparser.changes_trees):
            return None
        strings = ["", *("" if MARK in each else each for each in model.vocabulary.labels.strings)]
        return cls(model.constraints, reparser, strings)

    def __call__(
        self, arcs: Arcs, opinion: SecondOpinion, upos: Sequence[str], given: Collection[int] = ()
    ) -> Arcs:
        """The arcs of a tree, changed where they break constraints.

        upos: of all words. given: words, from 1, whose arcs stay.
        """
        tree = ConstrainedTree.of(arcs.heads, [self.strings[label] for label in arcs.labels], upos)
        left = {*given}
        labels = list(arcs.labels)
        probabilities = list(arcs.probabilities)
        for _ in range(MOST_CHANGES):
            words = [word for word in self.constraints.broken(tree) if word not in left][:MOST_WORDS]
            if not words:
                break
            changes = {word: self._best_change(opinion, tree, word) for word in words}
            left.update(word for word, change in changes.items() if change is None)
            if found := [change for change in changes.values() if change]:
                _, word, head, label, probability = min(found)
                tree.attach(word, head, self.strings[label])
                labels[word - 1] = label
                if probabilities:
                    probabilities[word - 1] = (1 - arcs.probabilities[word - 1] + probability) / 2
        heads = tree.heads[1:]
        if heads == arcs.heads and labels == arcs.labels:
            return arcs
        return arcs._replace(heads=heads, labels=labels, probabilities=probabilities)

    def _best_change(self, opinion: SecondOpinion, tree: ConstrainedTree, word: int) -> Change | None:
        """The change of an arc that costs least; None if none breaks fewer constraints."""
        logs = opinion.log_probabilities[word - 1]  # [n + 1]
        own = tree.heads[word]
        heads = [own]
        if own:  # another root would need another word to take its place
            best = np.argsort(-logs, kind="stable")[:MOST_HEADS].tolist()
            heads += [head for head in best if head not in (0, own) and not tree.is_above(word, head)]
        scores = self.reparser.label_scores([ArcsOfSentence(opinion, [word - 1] * len(heads), heads)])
        scores = scores - np.logaddexp.reduce(scores, 1, keepdims=True) + logs[heads, None]  # [heads, labels]
        scores[0] += self.reparser.bonus
        before = self.constraints.conflicts(tree, word, own, tree.labels[word])
        numbers = self.reparser.numbers
        columns = [
            column for column, number in enumerate(numbers) if self.strings[number] == tree.labels[word]
        ]
        present = scores[0, columns].max()
        for place in np.argsort(-scores, axis=None, kind="stable")[:MOST_ARCS].tolist():
            row, column = divmod(place, scores.shape[1])
            label = self.strings[numbers[column]]
            if not label or not np.isfinite(scores[row, column]) or (row and tree.crosses(word, heads[row])):
                continue
            if self.constraints.conflicts(tree, word, heads[row], label) < before:
                score = float(scores[row, column])
                probability = float(np.exp(score - (0 if row else self.reparser.bonus)))
                return Change(float(present) - score, word, heads[row], numbers[column], probability)
        return None
