from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from parser.batching.operations.layout import Read
from parser.batching.operations.operation import ALL
from parser.batching.operations.value_gradients import ValueGradients

WIDTH = 3


def read_of(rows):
    """In place where the rows are contiguous and in order."""
    first = rows[0]
    if rows == list(range(first, first + len(rows))):
        return Read(WIDTH, first, len(rows))
    return Read(WIDTH, first, len(rows), torch.tensor(rows), np.array(rows))


@st.composite
def readers(draw):
    """The rows of each reader: all rows once, in any order; and perhaps some of them again."""
    rows = draw(st.permutations(range(draw(st.integers(1, 8)))))
    cuts = sorted(draw(st.sets(st.integers(1, len(rows)))) | {0, len(rows)})
    once = [rows[start:stop] for start, stop in pairwise(cuts)]
    again = draw(st.lists(st.lists(st.sampled_from(rows), min_size=1), max_size=2))
    return len(rows), once + again


@given(readers(), st.integers(0, 2**16), st.data())
def test_sums_over_the_readers_of_a_value(found, seed, data):
    count, every = found
    torch.manual_seed(seed)
    columns = data.draw(
        st.lists(st.sampled_from([ALL, slice(1, 3)]), min_size=len(every), max_size=len(every))
    )
    reads = list(zip(map(read_of, every), columns, strict=True))
    total = ValueGradients({WIDTH: torch.full((count, WIDTH), torch.nan)}, reads)
    expected = torch.zeros(count, WIDTH)
    for rows, (read, own) in zip(every, reads, strict=True):
        gradient = torch.randn(len(rows), WIDTH)[:, own] if data.draw(st.booleans()) else None
        total.add(read, own, gradient)
        for place, row in enumerate(rows):
            if gradient is not None:
                expected[row, own] += gradient[place]
    torch.testing.assert_close(total.of(WIDTH, 0, count), expected)


@pytest.mark.parametrize("known", [True, False])
def test_a_gradient_may_be_that_of_other_rows(known):
    first, then = read_of([4, 2]), read_of([3, 1])
    reads = [(first, ALL), (then, ALL), (read_of([0]), ALL)]
    total = ValueGradients({WIDTH: torch.zeros(5, WIDTH)}, reads if known else [])
    total.add(first, ALL, torch.tensor([[1.0] * WIDTH, [2.0] * WIDTH]))
    total.add(then, ALL, total.of(WIDTH, 2, 3)[::2])  # rows 2 and 4, a view
    assert total.of(WIDTH, 1, 4)[:, 0].tolist() == [1.0, 2.0, 2.0, 1.0]
