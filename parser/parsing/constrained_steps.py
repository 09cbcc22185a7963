"""The transitions that constraints allow in a sentence, looked up at each of its steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from parser.parsing.constraints import ANY_LABEL, LabelChoices, SentenceConstraints
from parser.transitions.given_arcs import NOTHING_GIVEN, obstacles_alone
from parser.transitions.labelled import Effects, LabelledTransitions
from parser.transitions.system import Place


class TransitionArrays:
    """The properties of labelled transitions that constraints need; [transitions] each. Immutable."""

    def __init__(self, labelled: LabelledTransitions, choices: LabelChoices):
        self.of_kinds = [int(each.obstacles or 0) for each in labelled.system.transitions]
        """The obstacles of transitions without labels."""
        effects = Effects(*labelled.effects[:-1].T)
        self.labels, self.heads, self.dependents = labelled.label[:-1], effects.head, effects.dependent
        self.allowed = choices.table[:, self.labels]
        """[rows, transitions]"""


class ConstrainedSentence:
    """The constraints of a sentence, and the dependents counted so far."""

    def __init__(self, transitions: TransitionArrays, constraints: SentenceConstraints):
        self._transitions = transitions
        self._facts = [NOTHING_GIVEN, *constraints.facts, NOTHING_GIVEN]
        self._label_rows = [ANY_LABEL, *constraints.label_rows, ANY_LABEL]
        self._limits = np.array(constraints.limits)
        self._counted = [0, *constraints.counted, 0]
        """The bits of each word, from ROOT to the end of the buffer."""

    def blocked(self, stack: Sequence[int], front: int, heads: Sequence[int], headless: int) -> int:
        """The kinds of transitions that have obstacles, as bits. heads: those of ROOT and of each word."""
        obstacles = obstacles_alone(stack, front, heads, headless, self._facts)
        return sum(1 << kind for kind, any_of in enumerate(self._transitions.of_kinds) if any_of & obstacles)

    def choose(self, legal: Sequence[int], words: Sequence[int]) -> NDArray[np.intp] | None:
        """[n] The indices in `legal` of the transitions that labels and limits allow; None for all of them.

        legal: transitions without obstacles. words: those at the places.
        """
        rows = [self._label_rows[word] for word in words[: Place.NOWHERE]]
        if not (any(rows) or len(self._limits)):
            return None
        transitions, numbers = self._transitions, np.array(legal)
        dependents = transitions.dependents[numbers]
        left = np.ones(len(numbers), bool)
        exceeds, is_counted = ~left, ~left
        for place, row in enumerate(rows):
            if row != ANY_LABEL:
                left &= transitions.allowed[row][numbers] | (dependents != place)
                if LabelChoices.exact_label(row):  # given, and so counted before
                    is_counted |= dependents == place
        if len(self._limits):
            bits = self._limits[transitions.labels[numbers]]
            for place, word in enumerate(words[: Place.NOWHERE]):
                if counted := self._counted[word]:
                    exceeds |= (bits & counted != 0) & (transitions.heads[numbers] == place)
        within = left & (is_counted | ~exceeds)
        return np.flatnonzero(within if within.any() else left)

    def count(self, head: int, label: int) -> None:
        """Count an arc that was made."""
        if head and len(self._limits):
            self._counted[head] |= int(self._limits[label])
