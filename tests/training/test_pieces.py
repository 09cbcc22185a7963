"""Batches for which memory is too small."""

import pytest
import torch

from parser.training.pieces import in_pieces


def test_twice_as_many_pieces_until_memory_is_enough():
    tried = []

    def compute(pieces):
        tried.append([len(piece) for piece in pieces])
        if max(tried[-1]) > 2:
            raise torch.OutOfMemoryError("too much")
        return torch.cat(list(pieces)).tolist()

    rows = torch.tensor([4, 2, 6, 1, 3, 5, 0])
    assert in_pieces(compute, rows, torch.arange(7)) == rows.tolist()
    assert tried == [[7], [4, 3], [2, 2, 2, 1]]


@pytest.mark.parametrize("error", [torch.OutOfMemoryError, MemoryError])
def test_a_sentence_that_is_too_long_for_memory(error):
    def compute(pieces):
        raise error("too much")

    with pytest.raises(ValueError, match="too little memory for a sentence of 9 words"):
        in_pieces(compute, torch.tensor([2, 1, 0]), torch.tensor([3, 9, 4]))
