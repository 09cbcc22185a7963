"""All states that a plain parser can reach, one by one and as a batch."""

from dataclasses import replace
from itertools import product

import numpy as np
import torch
from plain_parser import Configuration, projective_trees

from parser.transitions.state import State
from parser.treebank.sentence import NO_HEAD


def key(configuration):
    heads = configuration.heads
    return tuple(configuration.stack), tuple(configuration.buffer), tuple(sorted(heads.items()))


def reachable_states(system, length):
    """All unfinished states that the parser can reach."""
    states, waiting = {}, [Configuration(system, length)]
    while waiting:
        configuration = waiting.pop()
        if key(configuration) not in states and not configuration.finished():
            states[key(configuration)] = configuration
            waiting += [configuration.after(move) for move in configuration.legal()]
    return list(states.values())


def as_state(configurations, length):
    lengths = torch.full((len(configurations),), length)
    state = State.initial(lengths)
    for row, configuration in enumerate(configurations):
        stack, heads = configuration.stack, configuration.heads
        state.stack[row, : len(stack)] = torch.tensor(stack)
        state.stack[row, len(stack) :] = torch.randint(length + 1, (length + 1 - len(stack),))  # stale
        state.depth[row] = len(stack)
        state.front[row] = length + 1 - len(configuration.buffer)
        state.headless[row] = sum(word not in heads for word in stack if word)
        for word, head in heads.items():
            state.heads[row * length + word - 1] = head
    return state


def copies_of_state(configuration, length, count):
    """A batch of `count` equal states."""
    one = as_state([configuration], length)
    rows = {name: getattr(one, name).repeat(count) for name in ("depth", "front", "length", "headless")}
    flat = {
        name: torch.cat([getattr(one, name)[:-1].repeat(count), getattr(one, name)[-1:]])
        for name in ("heads", "labels")
    }
    return replace(
        one, stack=one.stack.repeat(count, 1), base=torch.arange(count) * length - 1, **rows, **flat
    )


def known_in_part(trees):
    """All subsets of the trees' arcs, as heads."""
    masks = list(product([True, False], repeat=len(trees[0])))
    return sorted({
        tuple(head if known else NO_HEAD for head, known in zip(tree, mask, strict=True))
        for tree in trees
        for mask in masks
    })  # fmt: skip


class Completions:
    """The trees that can still be built from a state."""

    def __init__(self, length):
        self.trees = projective_trees(length)
        self._known = {}

    def of(self, configuration):
        """[trees] bool: which trees can follow the state."""
        name = key(configuration)
        if name not in self._known:
            if configuration.finished():
                can_follow = np.array([tree == configuration.tree() for tree in self.trees])
            else:
                later = [self.of(configuration.after(move)) for move in configuration.legal()]
                can_follow = np.any(later, axis=0)
            self._known[name] = can_follow
        return self._known[name]
