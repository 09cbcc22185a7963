"""Batches for which memory is too small."""

import pytest
import torch

from parser.batching.microbatches import in_microbatches


def test_twice_as_many_microbatches_until_memory_is_enough():
    tried = []

    def compute(microbatches):
        tried.append([len(part) for part in microbatches])
        if max(tried[-1]) > 2:
            raise torch.OutOfMemoryError("too much")
        return torch.cat(list(microbatches)).tolist()

    rows = torch.tensor([4, 2, 6, 1, 3, 5, 0])
    assert in_microbatches(compute, rows, torch.arange(7)) == rows.tolist()
    assert tried == [[7], [4, 3], [2, 2, 2, 1]]


@pytest.mark.parametrize("error", [torch.OutOfMemoryError, MemoryError])
def test_a_sentence_that_is_too_long_for_memory(error):
    def compute(microbatches):
        raise error("too much")

    with pytest.raises(ValueError, match="too little memory for a sentence of 9 words"):
        in_microbatches(compute, torch.tensor([2, 1, 0]), torch.tensor([3, 9, 4]))
