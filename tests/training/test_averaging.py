"""The moving average of weights against its formula."""

import pytest
import torch

from parser.training.averaging import averaged


@pytest.mark.parametrize("keep", [0.0001, 0.5, 0.999])
def test_each_update_keeps_a_part_and_the_first_ones_less(keep):
    network = torch.nn.Linear(3, 2)
    follower = averaged(network, keep)
    expected = None
    for update in range(30):
        with torch.no_grad():
            network.weight.add_(torch.randn(2, 3))
        follower.update_parameters(network)
        kept = min(keep, (1 + update) / (10 + update))
        expected = network.weight if expected is None else kept * expected + (1 - kept) * network.weight
        expected = expected.detach().clone()
        torch.testing.assert_close(follower.module.weight.detach(), expected)


def test_the_network_itself_is_left_alone():
    network = torch.nn.Linear(3, 2)
    before = network.weight.detach().clone()
    follower = averaged(network, 0.9)
    follower.update_parameters(network)
    with torch.no_grad():
        follower.module.weight.zero_()
    assert torch.equal(network.weight, before)
