"""A plain parser for comparison that keeps constraints by looking at all trees that can follow."""

from collections import Counter
from functools import cache

import numpy as np
import torch
from plain_parser import PlainParser
from reachable_states import Completions

from parser.treebank.sentence import MARK, NO_HEAD
from parser.treebank.tokens import encode_tokens


@cache
def completions_of(system, length):
    """The completions of all states of one transition system."""
    return Completions(length)


class PlainConstrainedParser(PlainParser):
    """Takes the best transition after which some tree with all that is given can follow.

    Among these it avoids transitions that exceed a limit, if there are others. Trees are projective.
    """

    def __init__(self, model, sentence, at_most_one=(), no_roots=()):
        """no_roots: words that may not be the root, if another one can."""
        super().__init__(model.network, model.inventory, encode_tokens(model.vocabulary, [sentence]))
        self.strings = ["_", *model.vocabulary.labels.strings]
        self.heads, self.labels, self.at_most_one = sentence.heads, sentence.labels, at_most_one
        self.counted = Counter()
        for head, label in zip(sentence.heads, sentence.labels, strict=True):
            if head != NO_HEAD:
                self.counted.update(self.counts(head, label))
        self.completions = completions_of(model.settings.system, len(sentence))
        fitting = np.array([self.fits(tree, model.vocabulary) for tree in self.completions.trees])
        wanted = fitting & np.array([tree.index(0) + 1 not in no_roots for tree in self.completions.trees])
        self.trees = wanted if wanted.any() else fitting

    def fits(self, tree, vocabulary):
        """Whether the tree contains everything that is given."""
        for head, given_head, given_label in zip(tree, self.heads, self.labels, strict=True):
            if given_head not in (NO_HEAD, head):
                return False
            possible = vocabulary.word_labels if head else vocabulary.root_labels
            choices = (self.strings[label] for label in possible)
            if not any(self.label_fits(label, given_head, given_label) for label in choices):
                return False
        return True

    def label_fits(self, label, given_head, given_label):
        plain, mark, _ = label.partition(MARK)
        return given_label in ("_", plain) and (given_head == NO_HEAD or not mark)

    def counts(self, head, label):
        """The (head, limit) pairs that an arc counts for."""
        plain = label.partition(MARK)[0]
        return [(head, limit) for limit in self.at_most_one if limit in (plain, plain.partition(":")[0])]

    def legal(self):
        legal = super().legal()
        within = legal.clone()
        for number in legal.nonzero().flatten().tolist():
            before, after = self.configuration.heads, self.configuration.after(self.name(number))
            legal[number] = bool((self.trees & self.completions.of(after)).any())
            for word in after.heads.keys() - before.keys():
                label = self.strings[int(self.inventory.label[number])]
                given_head, given_label = self.heads[word - 1], self.labels[word - 1]
                legal[number] &= self.label_fits(label, given_head, given_label)
                if given_head == NO_HEAD or given_label == "_":
                    exceeded = self.counts(after.heads[word], label)
                    is_lifted = MARK in label
                    within[number] = not any(self.counted[pair] or is_lifted for pair in exceeded)
        within &= legal
        return within if within.any() else legal

    def take(self, transition):
        before = set(self.configuration.heads)
        super().take(transition)
        for word in self.configuration.heads.keys() - before:
            label = self.strings[int(self.inventory.label[transition])]
            self.counted.update(self.counts(self.configuration.heads[word], label))


def plain_tree(model, sentence, **constraints):
    """Heads and labels. Labels include the marks of lifted words."""
    parser = PlainConstrainedParser(model, sentence, **constraints)
    with torch.no_grad():
        heads, labels, _ = parser.parse()
    return heads, [parser.strings[label] for label in labels]
