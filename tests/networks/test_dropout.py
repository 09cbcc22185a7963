import pytest
import torch

from parser.batching.dropout import dropout
from parser.networks.token_encoder import dropout_of_embeddings


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


def test_whole_embeddings_are_dropped_and_the_others_scaled_up(device):
    parts = [torch.ones(20_000, size, device=device) for size in (2, 5, 3)]
    found = dropout_of_embeddings(parts, 0.25, training=True)
    firsts = torch.stack([part[:, 0] for part in found])  # [columns, words]
    for part, first in zip(found, firsts, strict=True):
        assert torch.equal(part, first[:, None].expand_as(part))
    assert (firsts == 0).float().mean().item() == pytest.approx(0.25, abs=0.01)
    sums = firsts.sum(0)
    assert set(sums.round(decimals=4).tolist()) == {0.0, 3.0}  # 0 where all are dropped
    assert (sums == 0).float().mean().item() == pytest.approx(0.25**3, abs=0.005)
    assert dropout_of_embeddings(parts, 0.25, training=False) is parts
    assert dropout_of_embeddings(parts[:1], 0.25, training=True) == parts[:1]
