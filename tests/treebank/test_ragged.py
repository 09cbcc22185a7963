import torch
from hypothesis import given
from hypothesis import strategies as st

from parser.batching.ragged import Ragged

ROWS = st.lists(st.lists(st.integers(0, 99), max_size=6), min_size=1, max_size=8)


def ragged(rows):
    return Ragged.of([torch.tensor(row, dtype=torch.long) for row in rows])


@given(ROWS, st.data())
def test_select_is_list_indexing(rows, data):
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=10))
    selected = ragged(rows).select(torch.tensor(chosen))
    assert [row.tolist() for row in selected.unflatten()] == [rows[number] for number in chosen]


@given(ROWS)
def test_positions_and_rows_of_elements(rows):
    values = ragged(rows)
    assert values.position_in_row().tolist() == [place for row in rows for place in range(len(row))]
    assert values.row_of_element().tolist() == [number for number, row in enumerate(rows) for _ in row]
    assert len(values) == len(rows)
