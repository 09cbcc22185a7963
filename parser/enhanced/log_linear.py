"""A log-linear choice among candidates (Berger et al. 1996): the greatest sum of weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Features = Collection[str]
"""In an order that is the same in each process, for sums of numbers depend on it."""
PRIOR = 1.0
"""Inverse variance of the weights' prior, whose mean is 0."""
LEAST_COUNT = 2
"""Features of fewer candidates get no weight."""
LEAST_WEIGHT = 0.02
"""Smaller weights are left out."""
MOST_STEPS = 200


class Choice(NamedTuple):
    """An example: candidates, at least one of which is right."""

    candidates: Sequence[Features]
    right: Collection[int]
    """The indices of the right candidates."""


def fitted(choices: Sequence[Choice]) -> dict[str, float]:
    """The most probable weights of features, where the candidates' probabilities are proportional to the
    exponentials of the sums of their weights. Features that tell nothing have none."""
    # Imported here because they are slow to import, and only training needs them.
    from scipy.optimize import minimize
    from scipy.sparse import csr_matrix

    candidates = [dict.fromkeys(each) for choice in choices for each in choice.candidates]
    counts = Counter(chain.from_iterable(candidates))
    column = {
        name: number for number, name in enumerate(n for n, count in counts.items() if count >= LEAST_COUNT)
    }
    known = [[column[name] for name in each if name in column] for each in candidates]
    if not column:
        return {}
    ends = np.cumsum([len(each) for each in known])
    columns = np.fromiter(chain.from_iterable(known), np.int64)
    matrix = csr_matrix(
        (np.ones(len(columns)), columns, [0, *ends]), shape=(len(candidates), len(column))
    )  # [candidates, features]
    transposed = matrix.T.tocsr()
    sizes = np.array([len(choice.candidates) for choice in choices])
    starts = sizes.cumsum() - sizes
    choice_of = np.repeat(np.arange(len(sizes)), sizes)
    is_right = np.zeros(len(candidates), bool)
    for choice, start in zip(choices, starts.tolist(), strict=True):
        is_right[[start + number for number in choice.right]] = True

    def normalized(scores: Floats) -> tuple[Floats, Floats]:
        """[choices] The logarithms of the sums of exponentials, and [candidates] the shares in these sums."""
        greatest = np.maximum.reduceat(scores, starts)
        exponentials = np.exp(scores - greatest[choice_of])
        sums = np.add.reduceat(exponentials, starts)
        return greatest + np.log(sums), exponentials / sums[choice_of]

    def loss(weights: Floats) -> tuple[float, Floats]:
        """Minus the logarithm of how likely the weights [features] are, and its gradient [features]."""
        scores = matrix @ weights
        (of_all, shares), (of_right, right_shares) = (
            normalized(each) for each in (scores, np.where(is_right, scores, -np.inf))
        )
        gradient: Floats = transposed @ (shares - right_shares) + PRIOR * weights
        return float((of_all - of_right).sum() + PRIOR * (weights @ weights) / 2), gradient

    found = minimize(
        loss, np.zeros(len(column)), jac=True, method="L-BFGS-B", options={"maxiter": MOST_STEPS}
    )
    weights = dict(zip(column, found.x.tolist(), strict=True))
    return {name: round(weight, 3) for name, weight in weights.items() if abs(weight) >= LEAST_WEIGHT}


def best(weights: Mapping[str, float], candidates: Sequence[Features]) -> int:
    """The index of the candidate with the greatest sum of weights, the first one if there are several."""
    scores = [sum(weights.get(name, 0.0) for name in each) for each in candidates]
    return scores.index(max(scores))
