"""Groups of sequences of similar length, for computations that pad them."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

MAX_SCORES = 4_000_000
"""Maximum number of scores of pairs of positions in a group, padding included; a longer sequence is its own
group."""
LENGTH_RATIO = 1.5
"""Maximum ratio of the longest to the shortest sequence of a group."""


def groups_of_like_length(lengths: NDArray[np.integer]) -> Iterator[NDArray[np.intp]]:
    """Yield the numbers of the sequences of each group. lengths: [sequences]"""
    order = np.argsort(lengths, kind="stable")
    of_like_length = np.floor(np.log(lengths[order]) / math.log(LENGTH_RATIO))
    for alike in np.split(order, np.flatnonzero(np.diff(of_like_length)) + 1):
        size = max(1, MAX_SCORES // int(lengths[alike].max()) ** 2) if len(alike) else 1
        yield from (alike[start : start + size] for start in range(0, len(alike), size))
