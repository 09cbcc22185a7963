"""Which transitions are compared, and which is followed."""

import numpy as np
import pytest

from parser.benchmarks.feature_parser.decisions import KINDS, Decisions, FeatureSentence

LABELS = 2
SHIFT, LEFT_0, LEFT_1, RIGHT_0, RIGHT_1 = range(1 + 2 * LABELS)
ALL = 1 + 2 * LABELS


def sentence(heads: list[int], chances: float = 1.0) -> FeatureSentence:
    words = len(heads)
    return FeatureSentence(
        [0] * (words + 1), [0] * (words + 1), heads, [1] * words, np.full(2 * words, chances)
    )


def scores(**of: float) -> np.ndarray:
    """[1, KINDS + ALL] All scores are 0 but those given by the names above."""
    row = np.zeros((1, KINDS + ALL))
    for name, score in of.items():
        row[0, KINDS + globals()[name]] = score
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
    return int((features[0].reshape(-1, 3)[:3, 0] >= 0).sum())


@pytest.mark.parametrize(
    ("chances", "given", "follows_wrong"),
    [
        (1.0, {"LEFT_1": 0.5}, False),  # inside the margin, but no exploring
        (0.05, {"LEFT_1": 0.5}, True),  # inside the margin, and exploring
        (0.05, {"LEFT_1": 1.5}, False),  # outside of it
        (1.0, {"SHIFT": 0.5}, True),  # the wrong one scores higher
    ],
)
def test_when_the_wrong_one_is_followed(chances: float, given: dict[str, float], follows_wrong: bool) -> None:
    decisions = after_shift(chances)
    # Make Shift the best wrong one, which leaves two words on the stack where Left leaves none.
    decisions.take(scores(**{"SHIFT": 0.1, **given}))
    assert stack_height_after(decisions) == (2 if follows_wrong else 0)


def test_relations_are_the_predicted_labels_of_the_outermost_dependents() -> None:
    # The first two words are left dependents of the third, the fourth is its right one.
    decisions = Decisions([sentence([2, 2, 4, 2])], LABELS, explore=0.0)
    relations = []
    for move in ("SHIFT", "SHIFT", "LEFT_1", "LEFT_0", "SHIFT", "SHIFT", "RIGHT_1", "LEFT_1"):
        states = next(iter(decisions))
        relations.append(states.relations[0].tolist())
        # An incorrect label scores higher by far, and is followed.
        decisions.take(scores(**{move: 9.0}))
    none = [LABELS] * 2
    assert relations == [
        none * 4,
        none * 4,
        none * 4,
        [*none * 3, 1, LABELS],
        [*none * 3, 0, LABELS],
        [*none * 2, 0, LABELS, *none],
        [*none, 0, LABELS, *none * 2],
        [*none * 2, 0, 1, *none],
    ]
