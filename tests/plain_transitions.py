"""Plain Python versions of trees and transition systems, with which tests compare the batched code."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from parser.transitions import transition_system
from parser.transitions.inventory import Inventory
from parser.treebank.sentence import Sentence


def dominates(heads: Sequence[int], ancestor: int, word: int) -> bool:
    """Whether `word` descends from `ancestor`; heads[0] is word 1's."""
    for _ in range(len(heads) + 1):
        if word == ancestor:
            return True
        if word == 0:
            return False
        word = heads[word - 1]
    return False  # a cycle


def is_tree(heads: Sequence[int]) -> bool:
    return heads.count(0) == 1 and all(dominates(heads, 0, word) for word in range(1, len(heads) + 1))


def is_projective(heads: Sequence[int]) -> bool:
    """By the definition: a head dominates every word between it and its dependent."""
    return all(
        dominates(heads, head, between)
        for dependent, head in enumerate(heads, 1)
        for between in range(min(head, dependent) + 1, max(head, dependent))
    )


def crossing(heads: Sequence[int]) -> list[int]:
    """By the definition: the dependents of arcs over a word that does not descend from the head."""
    return [
        dependent
        for dependent, head in enumerate(heads, 1)
        if not all(
            dominates(heads, head, between)
            for between in range(min(head, dependent) + 1, max(head, dependent))
        )
    ]


def lifted_heads(heads: Sequence[int]) -> tuple[int, ...]:
    """The definition of `pseudo_projective.projectivize`: lift the shortest arc, and repeat."""
    found = list(heads)
    while dependents := crossing(found):
        dependent = min(dependents, key=lambda word: abs(found[word - 1] - word))
        found[dependent - 1] = found[found[dependent - 1] - 1]
    return tuple(found)


def level_by_level(heads: Sequence[int], top: int) -> list[int]:
    """All descendants of `top` in breadth-first order."""
    order = [top]
    for word in order:
        order += [dependent for dependent, head in enumerate(heads, 1) if head == word]
    return order[1:]


def deprojectivized_heads(
    heads: Sequence[int], labels: Sequence[str], wanted: Sequence[str]
) -> tuple[int, ...]:
    """The definition of `pseudo_projective.deprojectivize`: words nearest to the root move first."""
    found = list(heads)
    lifted = {word for word, label in enumerate(wanted, 1) if label and found[word - 1]}
    while lifted:
        word = next(word for word in level_by_level(found, 0) if word in lifted)
        lifted.remove(word)
        head = found[word - 1]
        below = [other for other in level_by_level(found, head) if not dominates(found, word, other)]
        fitting = [other for other in below if labels[other - 1] == wanted[word - 1]]
        found[word - 1] = fitting[0] if fitting else head
    return tuple(found)


def all_trees(length: int) -> Iterator[tuple[int, ...]]:
    """All trees of `length` words with a single root."""
    for heads in itertools.product(range(length + 1), repeat=length):
        if is_tree(heads):
            yield heads


def projective_trees(length: int) -> list[tuple[int, ...]]:
    return [heads for heads in all_trees(length) if is_projective(heads)]


def sentence(
    heads: Sequence[int], labels: Sequence[str] | None = None, forms: Sequence[str] = ()
) -> Sentence:
    """A sentence with a given tree and made-up words and tags."""
    count = len(heads)
    return Sentence(
        forms=tuple(forms or [f"word{number % 7}" for number in range(count)]),
        upos=tuple(["NOUN", "VERB", "ADP"][number % 3] for number in range(count)),
        xpos=("_",) * count,
        lemmas=tuple([f"lemma{number % 5}" for number in range(count)]),
        feats=tuple(["Case=Nom|Number=Sing", "_", "Number=Sing"][number % 3] for number in range(count)),
        heads=tuple(heads),
        labels=tuple(labels or ["root" if head == 0 else ["subject", "object"][head % 2] for head in heads]),
        identifier="made up",
        line=1,
        lines=(),
        word_lines=(),
    )


@dataclass
class Configuration:
    """The configuration of one sentence, with stack and buffer as Python lists."""

    system: str
    length: int
    stack: list[int] = field(default_factory=lambda: [0])
    buffer: list[int] = field(default_factory=list)
    heads: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.buffer = list(range(1, self.length + 1))

    def finished(self) -> bool:
        return not self.buffer and (self.system == "arc-eager" or self.stack == [0])

    def legal(self) -> set[str]:
        stack, buffer, heads = self.stack, self.buffer, self.heads
        top = stack[-1]
        names = set()
        if self.system == "arc-eager":
            headless = [word for word in stack if word and word not in heads]
            if len(buffer) >= 2:
                names.add("Shift")
            if buffer and heads.get(top, 0) != 0:
                names.add("Reduce")
            if buffer and top and top not in heads:
                names.add("Left-Arc")
            if len(buffer) >= 2 or (len(buffer) == 1 and not headless):
                names.add("Right-Arc" if top else "Root-Arc")
            return names
        if buffer:
            names.add("Shift")
        if self.system == "arc-hybrid" and buffer and top:
            names.add("Left-Arc")
        if self.system == "arc-standard" and len(stack) >= 3:
            names.add("Left-Arc")
        if len(stack) >= 3:
            names.add("Right-Arc")
        if len(stack) == 2 and not buffer:
            names.add("Root-Arc")
        return names

    def apply(self, name: str) -> None:
        stack, buffer = self.stack, self.buffer
        if name == "Shift":
            stack.append(buffer.pop(0))
        elif name == "Reduce":
            stack.pop()
        elif name == "Left-Arc" and self.system == "arc-standard":
            self.heads[stack.pop(-2)] = stack[-1]
        elif name == "Left-Arc":
            self.heads[stack.pop()] = buffer[0]
        elif self.system == "arc-eager":
            self.heads[buffer[0]] = stack[-1]
            stack.append(buffer.pop(0))
        else:
            dependent = stack.pop()
            self.heads[dependent] = stack[-1]

    def after(self, name: str) -> Configuration:
        """A copy to which the transition was applied."""
        copy = replace(self, stack=[*self.stack], heads={**self.heads})
        copy.buffer = [*self.buffer]
        copy.apply(name)
        return copy

    def may_have_root(self, word: int) -> bool:
        """Whether ROOT is the head of the word, or can still become it."""
        if word in self.heads or 0 in self.heads.values():
            return self.heads.get(word) == 0
        below = {"arc-eager": [], "arc-hybrid": self.stack[1:2], "arc-standard": self.stack[1:]}
        return word in self.buffer or word in below[self.system]

    def tree(self) -> tuple[int, ...]:
        return tuple(self.heads[word] for word in range(1, self.length + 1))


class PlainProbabilities:
    """Of labelled arcs: that of the transition, and of one from ROOT also of all that left the word to it."""

    def __init__(self, length: int):
        self.of_arcs: dict[int, float] = {}
        self._left = dict.fromkeys(range(1, length + 1), 1.0)

    def add(self, before: Configuration, of_kinds: Mapping[str, float], name: str, own: float) -> None:
        """of_kinds: the probabilities of all transitions without labels; name, own: of the one that is taken,
        and its probability with its label."""
        after = {kind: before.after(kind) for kind in before.legal()}
        for word in after[name].heads.keys() - before.heads.keys():
            is_from_root = after[name].heads[word] == 0
            self.of_arcs[word] = own * self._left[word] if is_from_root else own
        for word in self._left:
            self._left[word] *= sum(of_kinds[kind] for kind in after if after[kind].may_have_root(word))


def make_inventory(system: str, labels: int = 4, composition: bool = False) -> Inventory:
    """An inventory in which label 1 is for arcs from ROOT, and labels from 2 are for arcs from words."""
    named = transition_system(system, composition)
    return Inventory.build(named, labels, frozenset(range(2, labels)), frozenset([1]))
