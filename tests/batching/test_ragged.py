"""Rows of different lengths."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from parser.batching.ragged import Padding, Ragged, flatten, group_size


@given(st.lists(st.integers(1, 9), min_size=1, max_size=12), st.one_of(st.none(), st.integers(1, 13)))
def test_every_frame_has_its_place_in_its_groups_block(lengths, size):
    padding = Padding.of(torch.tensor(lengths), size)
    frames = [(frame, sequence) for sequence, length in enumerate(lengths) for frame in range(length)]
    frame, sequence = torch.tensor(frames).unbind(1)
    values = 100 * sequence + frame
    blocks = padding.spread(frame, sequence, values, fill=-1)
    width = size or len(lengths)
    groups = [lengths[start : start + width] for start in range(0, len(lengths), width)]
    for number, (block, group) in enumerate(zip(blocks, groups, strict=True)):
        expected = [
            [
                100 * (number * width + column) + place if place < length else -1
                for column, length in enumerate(group)
            ]
            for place in range(max(group))
        ]
        assert block.tolist() == expected
    assert padding.rows == sum(block.numel() for block in blocks)
    assert torch.equal(
        flatten([block[:, :, None] for block in blocks])[padding.row(frame, sequence), 0], values
    )


def test_groups_are_for_cpus():
    assert group_size(torch.device("cpu")) == 64
    assert group_size(torch.device("cuda")) is None


def test_sorted_sequences_in_groups_have_less_padding():
    lengths = torch.arange(512, 0, -1)
    assert (
        Padding.of(lengths, 64).rows < 0.6 * Padding.of(lengths, None).rows == pytest.approx(0.6 * 512 * 512)
    )


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
