"""The moving average of weights, compared with its formula."""

import pytest
import torch

from parser.training.optimizer import MovingAverage


def changed(network):
    with torch.no_grad():
        network.weight.add_(torch.randn(2, 3))


@pytest.mark.parametrize("keep", [0.0001, 0.5, 0.999])
def test_each_update_keeps_a_part_and_the_first_ones_less(keep):
    network = torch.nn.Linear(3, 2)
    average = MovingAverage(network, keep)
    expected = torch.zeros(2, 3)
    for update in range(30):
        changed(network)
        average.update()
        kept = min(keep, update / (9 + update))
        expected = kept * expected + (1 - kept) * network.weight.detach()
        torch.testing.assert_close(average.network.weight.detach(), expected)


def test_the_network_itself_is_left_alone_and_frozen_weights_are_shared():
    network = torch.nn.Linear(3, 2)
    network.bias.requires_grad_(False)
    average = MovingAverage(network, 0.9)
    before = network.weight.detach().clone()
    with torch.no_grad():
        average.network.weight.zero_()
    assert torch.equal(network.weight, before)
    assert average.network.bias is network.bias
    average.update()
    assert torch.equal(average.network.weight, before)  # the first update keeps none of the old average


def test_recurrent_layers_share_nothing():
    """Otherwise, on a GPU, flattening the weights of one would break up those of the other."""
    network = torch.nn.LSTM(3, 2, bidirectional=True)
    network.bias_hh_l0.requires_grad_(False)
    average = MovingAverage(network, 0.9)
    theirs = {weight.untyped_storage().data_ptr() for weight in network.parameters()}
    assert not theirs & {weight.untyped_storage().data_ptr() for weight in average.network.parameters()}


def test_an_average_goes_on_where_it_was():
    network = torch.nn.Linear(3, 2)
    one, other = MovingAverage(network, 0.99), MovingAverage(network, 0.99)
    for _ in range(5):
        changed(network)
        one.update()
    other.load_state({name: tensor.clone() for name, tensor in one.state().items()})
    changed(network)
    one.update()
    other.update()
    assert torch.equal(one.network.weight, other.network.weight)
