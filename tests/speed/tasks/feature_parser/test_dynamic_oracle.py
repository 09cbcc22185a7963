"""Arc-hybrid states in arrays compared with plain lists, their oracle, and the transitions followed."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pytest

from parser.speed.tasks.feature_parser.dynamic_oracle import (
    LEFT,
    NOTHING,
    RIGHT,
    SHIFT,
    TRANSITION_KINDS,
    Decisions,
    FeatureSentence,
    HybridStates,
)
from parser.treebank.projectivity import is_projective

State = tuple[tuple[int, ...], int, frozenset[tuple[int, int]]]
"""Stack, front of the buffer, arcs (head, dependent). ROOT is the number of words."""


@cache
def projective_trees(words: int) -> list[tuple[int, ...]]:
    found = []
    for heads in itertools.product(range(words + 1), repeat=words):
        # `is_projective` numbers words from 1, and ROOT is 0.
        numbered = tuple(0 if head == words else head + 1 for head in heads)
        if is_tree(numbered) and is_projective(numbered):
            found.append(heads)
    return found


def is_tree(heads: tuple[int, ...]) -> bool:
    for word in range(1, len(heads) + 1):
        seen = set()
        while word:
            if word in seen:
                return False
            seen.add(word)
            word = heads[word - 1]
    return True


def moves(state: State, words: int) -> dict[int, State]:
    stack, front, arcs = state
    after = {}
    if front < words:
        after[SHIFT] = ((*stack, front), front + 1, arcs)
    if stack:
        after[LEFT] = (stack[:-1], front, arcs | {(front, stack[-1])})
    if len(stack) > 1:
        after[RIGHT] = (stack[:-1], front, arcs | {(stack[-2], stack[-1])})
    return after


@cache
def best(state: State, heads: tuple[int, ...]) -> int:
    """The most gold arcs that a parse through the state can have."""
    after = moves(state, len(heads))
    if not after:
        return sum(heads[dependent] == head for head, dependent in state[2])
    return max(best(one, heads) for one in after.values())


def children(state: State, word: int, words: int) -> tuple[int, int]:
    """A word's leftmost and rightmost dependents, or itself. The buffer's front has left ones only."""
    own = [dependent for head, dependent in state[2] if head == word]
    left, right = ([d for d in own if d < word], [d for d in own if d > word])
    return min(left, default=word), max(right, default=word)


@pytest.mark.parametrize("words", [1, 2, 3, 4])
def test_every_state_of_every_projective_tree(words: int) -> None:
    for heads in projective_trees(words):
        reached: list[tuple[State, list[int]]] = [(((), 0, frozenset()), [])]
        while reached:
            states = HybridStates([heads] * len(reached))
            rows = np.arange(len(reached))
            for step in range(len(reached[0][1])):
                states.advance(rows, np.array([path[step] for _, path in reached]))
            features, legal, zero_cost = states.features(rows), states.legal(rows), states.zero_cost(rows)
            unfinished = set(states.unfinished().tolist())
            following = []
            for row, (state, path) in enumerate(reached):
                after = moves(state, words)
                assert (row in unfinished) == bool(after)
                assert set(np.flatnonzero(legal[row])) == set(after)
                good = {move for move, one in after.items() if best(one, heads) == best(state, heads)}
                assert set(np.flatnonzero(zero_cost[row])) == good
                items = [NOTHING] * (3 - len(state[0])) + list(state[0][-3:]) + [state[1]]
                expected = [
                    children(state, item, words) if item != NOTHING else (NOTHING, NOTHING) for item in items
                ]
                assert features[row].reshape(4, 2).tolist() == [list(own) for own in expected]
                following += [(one, [*path, move]) for move, one in after.items()]
            reached = following


def test_sentences_of_different_lengths_share_a_batch() -> None:
    trees = [(1, 3, 1), (1,), (2, 0), (4, 0, 1, 1)]
    states, alone = HybridStates(trees), [HybridStates([heads]) for heads in trees]
    first = np.zeros(1, np.int64)
    while len(rows := states.unfinished()):
        features, legal, zero_cost = states.features(rows), states.legal(rows), states.zero_cost(rows)
        for place, row in enumerate(rows.tolist()):
            assert features[place].tolist() == alone[row].features(first)[0].tolist()
            assert legal[place].tolist() == alone[row].legal(first)[0].tolist()
            assert zero_cost[place].tolist() == alone[row].zero_cost(first)[0].tolist()
            alone[row].advance(first, zero_cost[place : place + 1].argmax(1))
        states.advance(rows, zero_cost.argmax(1))
    assert all(len(one.unfinished()) == 0 for one in alone)


LABELS = 2
LEFT_0, LEFT_1, RIGHT_0, RIGHT_1 = range(1, 1 + 2 * LABELS)
ALL = 1 + 2 * LABELS


def sentence(heads: list[int], chances: float = 1.0) -> FeatureSentence:
    words = len(heads)
    return FeatureSentence(
        [0] * (words + 1), [0] * (words + 1), heads, [1] * words, np.full(2 * words, chances)
    )


def scores(**of: float) -> np.ndarray:
    """[1, KINDS + ALL] scores, 0 except for those given by the names above."""
    row = np.zeros((1, TRANSITION_KINDS + ALL))
    for name, score in of.items():
        row[0, TRANSITION_KINDS + globals()[name]] = score
    return row


def after_shift(chances: float = 1.0) -> Decisions:
    """Two words, of which the second heads the first with label 1; the first is on the stack."""
    decisions = Decisions([sentence([1, 2], chances)], LABELS, explore=0.1)
    next(iter(decisions))
    decisions.take(scores(SHIFT=5))
    return decisions


@pytest.mark.parametrize(
    ("given", "pair"),
    [
        ({"LEFT_1": 0.5, "LEFT_0": 0.2}, (LEFT_1, LEFT_0)),
        ({"LEFT_1": 0.5, "SHIFT": 0.2}, (LEFT_1, SHIFT)),
        ({"LEFT_1": 0.5, "SHIFT": 3}, (LEFT_1, SHIFT)),
        ({"LEFT_1": 0.5, "RIGHT_1": 9}, (LEFT_1, SHIFT)),  # Right is not legal
    ],
)
def test_the_best_right_and_the_best_wrong_one(given: dict[str, float], pair: tuple[int, int]) -> None:
    chosen = after_shift().take(scores(**given))
    assert chosen.places == [0]
    assert chosen.pairs.tolist() == [pair[0] * ALL + pair[1]]


def test_no_loss_where_the_right_one_wins_by_the_margin() -> None:
    chosen = after_shift().take(scores(LEFT_1=1.1))
    assert chosen.places == []
    assert len(chosen.pairs) == 0


def stack_height_after(decisions: Decisions) -> int:
    features = next(iter(decisions)).words
    return int((features[0].reshape(-1, 2)[:3, 0] >= 0).sum())


@pytest.mark.parametrize(
    ("chances", "given", "follows_wrong"),
    [
        (1.0, {"LEFT_1": 0.5}, False),  # inside the margin, but no exploring
        (0.05, {"LEFT_1": 0.5}, True),  # inside the margin, and exploring
        (0.05, {"LEFT_1": 1.5}, False),  # outside the margin
        (1.0, {"SHIFT": 0.5}, True),  # the wrong one scores higher
    ],
)
def test_when_the_wrong_one_is_followed(chances: float, given: dict[str, float], follows_wrong: bool) -> None:
    decisions = after_shift(chances)
    # Make Shift the best wrong transition: it leaves two words on the stack, and Left leaves none.
    decisions.take(scores(**{"SHIFT": 0.1, **given}))
    assert stack_height_after(decisions) == (2 if follows_wrong else 0)
