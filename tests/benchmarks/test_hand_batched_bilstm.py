"""A padded BiLSTM against one without padding, which has tests of its own."""

from __future__ import annotations

import pytest
import torch
from chosen_device import DEVICE

from parser.benchmarks.hand_batched_bilstm import PADDED_TOGETHER, bilstm_padded
from parser.networks.bilstm import bilstm, bilstm_by_levels


@pytest.mark.parametrize("sequences", [1, PADDED_TOGETHER, 2 * PADDED_TOGETHER + 3])
@pytest.mark.parametrize("longest", [1, 6])
def test_padding_changes_nothing(sequences: int, longest: int) -> None:
    torch.manual_seed(0)
    lstm = bilstm(3, 4, layers=2).to(DEVICE, torch.double)
    lengths = torch.randint(1, longest + 1, (sequences,)).tolist()
    inputs = torch.randn(sum(lengths), 3, device=DEVICE, dtype=torch.double, requires_grad=True)
    weights = [inputs, *(weight for weight in lstm.parameters() if weight.requires_grad)]
    found = []
    for run in (bilstm_by_levels, bilstm_padded):
        states = run(lstm, inputs, lengths)
        found.append((states, *torch.autograd.grad(states.square().sum(), weights)))
    torch.testing.assert_close(found[1], found[0])
