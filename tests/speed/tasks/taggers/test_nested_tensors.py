"""What PyTorch's nested tensors cannot do: why taggers use offsets into their values, and trees do not.

If one of these tests fails, PyTorch can do it now: change docs/choosing.md and `bilstms.py`.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

OFFSETS = torch.tensor([0, 3, 5])
CANNOT = NotImplementedError, RuntimeError, ValueError
CHILDREN = torch.nested.nested_tensor_from_jagged(torch.tensor([0, 0, 1]), torch.tensor([0, 1, 3]))

ATTEMPTS: dict[str, Callable[[Tensor], object]] = {
    "recurrence": nn.LSTM(4, 3, batch_first=True),
    "the words at one place": lambda sequences: sequences[:, 0],
    "the other direction": lambda sequences: sequences.flip(1),
    "the states of children": lambda sequences: sequences[torch.arange(2)[:, None], CHILDREN],
}


@pytest.mark.parametrize("what", ATTEMPTS)
def test_nested_tensors_lack(what: str) -> None:
    sequences = torch.nested.nested_tensor_from_jagged(torch.randn(5, 4), OFFSETS)  # [2, (words), 4]
    with pytest.raises(CANNOT):
        ATTEMPTS[what](sequences)
