"""The moving average of weights, compared with its formula."""

import pytest
import torch

from parser.training.optimizer import (
    PEAK,
    WARMUP_EPOCHS,
    LearningRateSettings,
    MovingAverage,
    Schedule,
    peak_learning_rate,
)


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


NOT_A_NUMBER = float("nan")


@pytest.mark.parametrize(
    ("settings", "dev_losses", "steps_per_epoch", "expected"),
    [
        (
            {"warmup_epochs": 2, "factor": 0.5, "patience": 0, "minimum": 0.0},
            [9.0, 8.0, 7.0, 7.5, 6.0, 6.5, 6.4],
            2,
            [1.0, 1.75, 2.5, 3.25, *[4.0] * 4, *[2.0] * 4, *[1.0] * 2],
        ),
        # While it warms up, a worse loss changes nothing. The first loss is never reached again.
        ({"warmup_epochs": 3, "patience": 0}, [1.0, 2.0, 3.0, 2.5, 2.4], 1, [1.0, 2.0, 3.0, 4.0, 4.0]),
        ({"warmup_epochs": 0, "patience": 0}, [NOT_A_NUMBER] * 4, 1, [4.0] * 4),
        (
            {"warmup_epochs": 0, "factor": 0.5, "patience": 1, "minimum": 1.5},
            [5.0] * 7,
            1,
            [4.0, 4.0, 4.0, 2.0, 2.0, 1.5, 1.5],
        ),
        (
            {"warmup_epochs": 1, "decay": "linear"},
            [1.0, 2.0, 3.0, 4.0, 5.0],
            2,
            [1.0, 2.5, 4.0, 3.5, 3.0, 2.5, 2.0, 1.5, 1.0, 0.5],
        ),
        # Nothing is left to fall.
        ({"warmup_epochs": 2, "decay": "linear"}, [1.0, 1.0], 2, [1.0, 1.75, 2.5, 3.25]),
    ],
)
def test_the_rate_warms_up_and_then_halves_on_a_plateau_or_falls(
    settings, dev_losses, steps_per_epoch, expected
):
    optimizer = torch.optim.Adam([torch.nn.Parameter(torch.zeros(1))])
    schedule = Schedule(optimizer, LearningRateSettings(start=1.0, **settings), 4.0, len(dev_losses))
    rates = []
    for epoch, dev_loss in enumerate(dev_losses, 1):
        for step in range(steps_per_epoch):
            schedule.before_step(epoch - 1 + step / steps_per_epoch)
            rates.append(schedule.learning_rate)
        schedule.after_epoch(epoch, dev_loss)
    assert rates == pytest.approx(expected)


def test_the_papers_peak():
    def peak(batch_size, **settings):
        return peak_learning_rate(LearningRateSettings(**settings), batch_size)

    assert peak(8) == pytest.approx(5e-4 * 8)
    assert peak(256) == 0.02
    assert peak(256, peak=1e-3) == 1e-3


@pytest.mark.parametrize("decay", ["linear", "plateau"])
def test_groups_with_a_peak_of_their_own_warm_up_alone_and_decay_as_the_others(decay):
    own = {"params": [torch.nn.Parameter(torch.zeros(1))], PEAK: 4e-5, WARMUP_EPOCHS: 2.0}
    optimizer = torch.optim.SGD([{"params": [torch.nn.Parameter(torch.zeros(1))]}, own], lr=1.0)
    settings = LearningRateSettings(start=1e-3, peak=1e-2, warmup_epochs=1, decay=decay, minimum=0)
    schedule = Schedule(optimizer, settings, 1e-2, epochs=11)

    def rates(epochs):
        schedule.before_step(epochs)
        return [group["lr"] for group in optimizer.param_groups]

    assert rates(0.0) == pytest.approx([1e-3, 0.0])
    assert rates(0.5) == pytest.approx([5.5e-3, 1e-5])
    if decay == "linear":
        assert rates(2.0) == pytest.approx([9e-3, 3.6e-5])
        assert rates(6.0) == pytest.approx([5e-3, 2e-5])
    else:
        assert rates(1.0) == pytest.approx([1e-2, 2e-5])
        assert rates(2.0) == pytest.approx([1e-2, 4e-5])
        schedule.after_epoch(3, 1.0)
        schedule.after_epoch(4, 2.0)
        assert rates(4.5) == pytest.approx([5e-3, 2e-5])
        state = schedule.state()
        fresh = Schedule(optimizer, settings, 1e-2, epochs=11)
        fresh.load_state(state)
        fresh.before_step(5.0)
        assert optimizer.param_groups[1]["lr"] == pytest.approx(2e-5)
