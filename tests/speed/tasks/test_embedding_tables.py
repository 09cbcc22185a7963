"""Tables that start with the vectors of a file."""

from __future__ import annotations

import pytest
import torch

from parser.speed.tasks.operation_training import copy_vectors, sparse_table


def test_words_start_with_their_vectors_or_those_of_their_lowercase_form(tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text("the 1 2\nrock 3 4\nRock 5 6\n")
    table = sparse_table(5, 2)
    before = table.weight.detach().clone()
    assert copy_vectors(table, {"Rock": 1, "The": 2, "sock": 4}, str(path)) == 2
    assert table.weight[1:3].tolist() == [[5, 6], [1, 2]]
    assert torch.equal(table.weight[[0, 3, 4]], before[[0, 3, 4]])
    with pytest.raises(ValueError, match="have 2 numbers, and those of the table 3: set word_size to 2"):
        copy_vectors(sparse_table(5, 3), {}, str(path))
