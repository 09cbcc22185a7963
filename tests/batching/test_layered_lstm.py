"""LSTMs with our dropout between its layers, compared with PyTorch's multi-layer LSTM."""

import copy

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

from parser.batching.functional import dropout
from parser.batching.lstm import LayeredLSTM, lstm_with_dropout

SIZE, HIDDEN, LAYERS = 4, 5, 3


def results(lstm, sequences, states, packed):
    """The outputs of all frames, the last states, and, in training, the gradients.

    sequences: [frames, batch, input]; states: [layers * directions, batch, hidden], or None for zeros.
    """
    inputs = sequences.detach().clone().requires_grad_()
    given = pack_padded_sequence(inputs, torch.tensor([7, 7, 4, 2, 1])) if packed else inputs
    outputs, last = lstm(given, None if states is None else (states, states / 2))
    found = [outputs.data, *last]
    if lstm.training:  # elsewhere cuDNN has no backward pass
        loss = sum(
            (each * torch.linspace(-1, 1, each.numel()).to(each.device).view_as(each)).sum() for each in found
        )
        found += torch.autograd.grad(loss, [inputs, *lstm.parameters()])
    return found


@pytest.mark.parametrize("with_states", [False, True])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("why", ["not in training", "no dropout"])
def test_without_dropout_it_is_pytorchs(why, packed, bidirectional, with_states, device):
    ours = lstm_with_dropout(SIZE, HIDDEN, LAYERS, 0.5, bidirectional).double().to(device)
    theirs = nn.LSTM(SIZE, HIDDEN, LAYERS, bidirectional=bidirectional).double().to(device)
    theirs.load_state_dict(ours.state_dict())
    assert isinstance(ours, LayeredLSTM)
    for lstm in (ours, theirs):
        lstm.dropout = 0.0 if why == "no dropout" else 0.5
        lstm.train(why == "no dropout")
    inputs = torch.randn(7, 5, SIZE, dtype=torch.double, device=device)
    states = torch.randn(LAYERS * (1 + bidirectional), 5, HIDDEN, dtype=torch.double, device=device)
    found, expected = (
        results(lstm, inputs, states if with_states else None, packed) for lstm in (ours, theirs)
    )
    torch.testing.assert_close(found, expected)


def test_a_single_sequence_needs_no_batch(device):
    lstm = lstm_with_dropout(SIZE, HIDDEN, LAYERS, 0.5).to(device).eval()
    inputs = torch.randn(7, SIZE, device=device)
    outputs, states = lstm(inputs[:4])
    rest, last = lstm(inputs[4:], states)
    expected, of_batch = lstm(inputs[:, None])
    torch.testing.assert_close(torch.cat([outputs, rest]), expected[:, 0])
    torch.testing.assert_close(last, tuple(part[:, 0] for part in of_batch))


@pytest.mark.parametrize("bidirectional", [False, True])
def test_dropout_is_ours_and_between_layers_only(bidirectional, device):
    lstm = lstm_with_dropout(SIZE, HIDDEN, LAYERS, 0.5, bidirectional).to(device)
    inputs = torch.randn(7, 5, SIZE, device=device)
    singles = []
    for number in range(LAYERS):
        width = (1 + bidirectional) * HIDDEN if number else SIZE
        single = nn.LSTM(width, HIDDEN, bidirectional=bidirectional).to(device)
        with torch.no_grad():
            for own, given in zip(single.parameters(), lstm._layer(number), strict=True):
                own.copy_(given)
        singles.append(single)

    def seeded(run):
        torch.manual_seed(3)
        torch.cuda.manual_seed_all(3)
        return run()

    def by_singles():
        below = singles[0](inputs)[0]
        for single in singles[1:]:
            below = single(dropout(below, 0.5, training=True))[0]
        return below

    found = seeded(lambda: lstm(inputs)[0])
    torch.testing.assert_close(found, seeded(by_singles))
    assert not torch.allclose(found, lstm(inputs)[0])  # another mask in the next call
    assert torch.equal(found, seeded(lambda: lstm(inputs)[0]))


def test_without_dropout_between_layers_it_is_one_call():
    for lstm in (lstm_with_dropout(SIZE, HIDDEN, 1, 0.5), lstm_with_dropout(SIZE, HIDDEN, 2, 0.0)):
        assert type(lstm) is nn.LSTM


def test_each_layer_is_a_call_and_its_weights_are_one_block(cuda):
    """Also those of a copy that is flattened again; a warning of the library would be an error."""
    lstm = lstm_with_dropout(SIZE, HIDDEN, LAYERS, 0.5, bidirectional=True).to("cuda").eval()
    inputs = torch.randn(7, 5, SIZE, device="cuda")
    copied = copy.deepcopy(lstm)
    copied.flatten_parameters()
    cuda.counted()
    found = [each(inputs)[0] for each in (lstm, copied)]
    assert torch.equal(*found)
    assert cuda.counted().library_lstms == 2 * LAYERS


def test_masks_drop_values_with_their_probability():
    """The second layer passes on the sign of what it reads, and reads ones, some of them dropped."""
    lstm = lstm_with_dropout(1, 400, 2, 0.3)
    with torch.no_grad():
        for weight in lstm.parameters():
            weight.zero_()
        lstm.bias_ih_l0.fill_(
            100.0
        )  # all gates open: the states of the first layer are tanh(1), tanh(2), ...
        lstm.weight_ih_l1.view(4, 400, 400)[2].fill_diagonal_(1.0)
        outputs = lstm(torch.zeros(1, 100, 1))[0]  # [1, 100, 400]
    dropped = float((outputs == 0).float().mean())
    assert abs(dropped - 0.3) < 0.01
    kept = outputs[outputs != 0]
    scaled = torch.tensor(1.0).tanh() / 0.7
    torch.testing.assert_close(kept, (scaled.tanh() / 2).tanh().div(2).expand_as(kept))


def test_packed_sequences_in_another_order_are_refused():
    lstm = lstm_with_dropout(3, 4, 2, 0.5)
    packed = nn.utils.rnn.pack_sequence([torch.randn(2, 3), torch.randn(5, 3)], enforce_sorted=False)
    with pytest.raises(ValueError, match="sorted"):
        lstm(packed)
