"""Many sequences at once, by hand and by the library, against each alone."""

import pytest
import torch

from parser.networks import bilstm as module
from parser.networks.bilstm import bilstm, bilstm_by_levels, bilstm_packed

LENGTHS = [3, 1, 5, 5, 2, 1]


@pytest.mark.parametrize("together", [1, 10, 1000])
@pytest.mark.parametrize("over", [bilstm_by_levels, bilstm_packed])
def test_many_sequences_give_what_each_alone_gives(over, together, monkeypatch, device):
    monkeypatch.setattr(module, "MAX_PADDED_FRAMES", together)
    lstm = bilstm(4, 3, layers=2).double().to(device)
    inputs = torch.randn(sum(LENGTHS), 4, dtype=torch.double, device=device, requires_grad=True)
    mixture = torch.randn(sum(LENGTHS), 6, dtype=torch.double, device=device)
    weights = [inputs, *(weight for weight in lstm.parameters() if weight.requires_grad)]
    alone = torch.cat([lstm(own)[0] for own in inputs.split(LENGTHS)])
    expected = torch.autograd.grad((alone * mixture).sum(), weights)
    states = over(lstm, inputs, LENGTHS)
    torch.testing.assert_close(states, alone, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(torch.autograd.grad((states * mixture).sum(), weights), expected)
