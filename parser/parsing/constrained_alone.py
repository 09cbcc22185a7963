"""As `ConstrainedBatch`, of a sentence that is parsed alone, in plain numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from parser.parsing.constraints import SentenceConstraints
from parser.parsing.label_choices import LabelChoices
from parser.stepping.plain_steps import Array, array
from parser.transitions.given_arcs import NOTHING_GIVEN, obstacles_alone
from parser.transitions.inventory import Inventory
from parser.transitions.system import Place


class TransitionArrays:
    """What constraints read of labelled transitions; [transitions] each. It does not change."""

    def __init__(self, inventory: Inventory, choices: LabelChoices):
        of_kinds = np.array([int(each.obstacles or 0) for each in inventory.system.transitions])
        effects = inventory.effects(inventory.kind.new_tensor(range(len(inventory))))
        self.obstacles = of_kinds[array(inventory.kind[:-1])]
        self.labels = array(inventory.label[:-1])
        self.heads, self.dependents = array(effects.head), array(effects.dependent)
        self.allowed = array(choices.table)[:, self.labels]
        """[rows, transitions]"""


class ConstrainedSentence:
    """The constraints of a sentence, and what was counted of it."""

    def __init__(self, transitions: TransitionArrays, constraints: SentenceConstraints):
        self._transitions = transitions
        self._facts = [NOTHING_GIVEN, *constraints.facts, NOTHING_GIVEN]
        self._label_rows = constraints.label_rows
        self._limits = np.array(constraints.limits)
        self._counted = constraints.counted

    def choose(
        self,
        legal: Sequence[int],
        stack: Sequence[int],
        front: int,
        heads: Sequence[int],
        headless: int,
        words: Sequence[int],
    ) -> Array:
        """[n] The places in `legal` of the transitions that are left.

        legal: the transitions that are legal without constraints. heads: of ROOT, of each word, and of what
        is after the last one. words: at the places.
        """
        own, numbers = self._transitions, np.array(legal)
        found = obstacles_alone(stack, front, heads, headless, self._facts)
        left = own.obstacles[numbers] & found == 0
        exceeds, is_counted = np.zeros_like(left), np.zeros_like(left)
        for place in (Place.S0, Place.S1, Place.B0):
            word = words[place]
            if not 0 < word <= len(self._label_rows):
                continue
            row = self._label_rows[word - 1]
            is_dependent = own.dependents[numbers] == place
            left &= own.allowed[row][numbers] | ~is_dependent
            if len(self._limits):
                bits = self._limits[own.labels[numbers]] & self._counted[word - 1]
                exceeds |= (bits != 0) & (own.heads[numbers] == place)
                if LabelChoices.exact_label(row):  # it is given, and was counted before
                    is_counted |= is_dependent
        within = left & (is_counted | ~exceeds)
        return np.flatnonzero(within if within.any() else left)

    def count(self, head: int, label: int) -> None:
        """An arc was made."""
        if head > 0 and len(self._limits):
            self._counted[head - 1] |= int(self._limits[label])
