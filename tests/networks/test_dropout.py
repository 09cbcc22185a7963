import pytest
import torch

from parser.networks.dropout import dropout


@pytest.mark.parametrize("probability", [0.1, 0.33, 0.5, 0.9])
@pytest.mark.parametrize("shape", [(997,), (100, 101), (7, 11, 13)])
def test_dropped_share_and_mean(probability, shape, device):
    inputs = torch.ones(200, *shape, device=device)
    outputs = dropout(inputs, probability, training=True)
    dropped = (outputs == 0).float()
    share = dropped.mean().item()
    deviation = (probability * (1 - probability) / inputs.numel()) ** 0.5
    assert abs(share - probability) < 6 * deviation + 1 / 65536
    assert torch.allclose(outputs[outputs != 0], torch.tensor(1 / (1 - probability), device=device))
    neighbours = (dropped.flatten()[1:] * dropped.flatten()[:-1]).mean().item()
    assert neighbours == pytest.approx(probability**2, abs=0.01)


def test_gradients_have_the_mask_of_the_values(device):
    inputs = torch.randn(50, 50, device=device, requires_grad=True)
    outputs = dropout(inputs, 0.5, training=True)
    outputs.sum().backward()
    assert torch.equal(inputs.grad != 0, outputs != 0)


def test_identity_in_evaluation_and_reproducible_by_seed():
    inputs = torch.randn(5, 5)
    assert torch.equal(dropout(inputs, 0.5, training=False), inputs)
    torch.manual_seed(3)
    first = dropout(inputs, 0.5, training=True)
    torch.manual_seed(3)
    assert torch.equal(dropout(inputs, 0.5, training=True), first)
