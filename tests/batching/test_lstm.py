"""Our LSTM kernels, and our dropout between layers, compared with PyTorch's LSTM; the fused cell."""

import copy

import pytest
import torch
from simulated_cuda import operators as simulated
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

from parser.batching.forest_lstm import SortedForest, forest_lstm, lstm_over_forest
from parser.batching.functional import dropout
from parser.batching.lstm import LayeredLSTM, fused_cell, has_fused_cell, lstm_cell, lstm_with_dropout
from parser.batching.stack_lstm import SteppedLSTM, output


@pytest.fixture(params=["slow tanh", "fast tanh"])
def _kernels(request, monkeypatch):
    """Test both kinds of kernels, whatever CPU the machine has."""
    monkeypatch.setattr("parser.batching.lstm.tanh_is_slow", lambda tensor: request.param == "slow tanh")


def chains(batch, frames):
    """A forest of sequences: node = frame * batch + sequence."""
    nodes = torch.arange(batch * frames)
    return SortedForest.of((nodes - batch).clamp(min=-1), nodes // batch)


@pytest.mark.usefixtures("_kernels")
@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_frame_by_frame_and_over_a_forest_as_torch_lstm(layers, dtype, device):
    lstm = nn.LSTM(5, 6, layers, dtype=dtype, device=device)
    inputs = torch.randn(7, 4, 5, dtype=dtype, device=device)  # [frames, batch, input]
    mixture = torch.randn(7, 4, 6, dtype=dtype, device=device)

    def library():
        return lstm(inputs)[0]

    def frame_by_frame():
        stepped = SteppedLSTM(lstm)
        states = stepped.split(inputs.new_zeros(4, stepped.state_size))
        outputs = []
        for frame in inputs:
            states = stepped.advance(stepped.project(frame), states)
            outputs.append(output(states))
        return torch.stack(outputs)

    def forest():
        sequences, order, position = chains(4, 7)
        hidden = lstm_over_forest(lstm, inputs.flatten(0, 1)[order], sequences.to(device))
        return hidden[position].view(7, 4, 6)

    results = []
    for run in (library, frame_by_frame, forest):
        lstm.zero_grad()
        outputs = run()
        (outputs * mixture).sum().backward()
        results.append([outputs.detach(), *(weight.grad.clone() for weight in lstm.parameters())])
    in_floats = 1e-4 if device.type == "cuda" else 1e-5  # cuDNN adds in another order
    tolerance = in_floats if dtype == torch.float32 else 1e-10
    for ours in results[1:]:
        for our, theirs in zip(ours, results[0], strict=True):
            torch.testing.assert_close(our, theirs, rtol=tolerance, atol=tolerance)


@pytest.mark.usefixtures("_kernels")
def test_gradients_of_the_cell(device):
    gates = torch.randn(2, 3, 20, dtype=torch.double, device=device, requires_grad=True)
    cell = torch.randn(3, 5, dtype=torch.double, device=device, requires_grad=True)
    assert torch.autograd.gradcheck(lambda both, previous: lstm_cell(*both, previous), (gates, cell))


@pytest.mark.usefixtures("_kernels")
def test_gradients_of_a_forest_with_branches(device):
    parent = torch.tensor([-1, 0, 0, 1, 1, 1, 4, -1])
    depth = torch.tensor([0, 1, 1, 2, 2, 2, 3, 0])
    forest = SortedForest.of(parent, depth).forest.to(device)
    gates = torch.randn(8, 12, dtype=torch.double, device=device, requires_grad=True)
    weight = torch.randn(12, 3, dtype=torch.double, device=device, requires_grad=True)
    # A GPU adds the gradients of siblings in any order.
    varies = 1e-12 if device.type == "cuda" else 0.0
    assert torch.autograd.gradcheck(
        lambda g, w: forest_lstm(g, w, forest), (gates, weight), nondet_tol=varies
    )


OPERATOR = "_thnn_fused_lstm_cell"


def missing(*tensors):
    raise NotImplementedError(OPERATOR)


def with_other_gates(of_input, of_hidden, previous):
    hidden, cell, active = simulated.fused_cell(of_input, of_hidden.flip(1), previous)
    return hidden, cell, active


def results(device):
    """The states and gradients of a cell and of an LSTM over a forest."""
    torch.manual_seed(0)
    both, previous = torch.randn(2, 5, 12).to(device).requires_grad_(), torch.randn(5, 3).to(device)
    weight = torch.randn(12, 3).to(device).requires_grad_()
    parent, depth = torch.tensor([-1, 0, 0, 2, -1]), torch.tensor([0, 1, 1, 2, 0])
    forest = SortedForest.of(parent, depth).forest.to(device)
    outputs = [*lstm_cell(*both, previous), forest_lstm(both[0], weight, forest)]
    torch.cat(outputs).square().sum().backward()
    return [each.detach().cpu() for each in (*outputs, both.grad, weight.grad)]


@pytest.mark.parametrize("operator", [None, missing, with_other_gates])
def test_a_cell_that_is_missing_or_differs_is_not_used(operator, cuda, monkeypatch, capsys):
    if operator:
        monkeypatch.setitem(simulated.FUSED_CELLS, OPERATOR, operator)
    assert has_fused_cell(torch.zeros(1, 4, device="cuda")) == (operator is None)
    cuda.counted()
    found = results(cuda.name)
    assert bool(cuda.counts.operators[OPERATOR]) == (operator is None)
    for ours, expected in zip(found, results(torch.device("cpu")), strict=True):
        torch.testing.assert_close(ours, expected)
    assert ("differs" in capsys.readouterr().err) == (operator is with_other_gates)


def test_other_errors_are_raised(cuda, monkeypatch):
    def too_much(*tensors):
        raise torch.OutOfMemoryError("too much")

    monkeypatch.setitem(simulated.FUSED_CELLS, OPERATOR, too_much)
    with pytest.raises(torch.OutOfMemoryError):
        has_fused_cell(torch.zeros(1, 4, device="cuda"))


def test_there_is_none_on_a_cpu_or_in_half_precision(cuda):
    assert not has_fused_cell(torch.zeros(1, 4))
    assert not has_fused_cell(torch.zeros(1, 4, dtype=torch.float16, device="cuda"))


def test_cells_of_two_sizes_are_refused(cuda):
    with pytest.raises(RuntimeError, match="sizes"):
        fused_cell(*torch.zeros(2, 3, 8, device="cuda"), torch.zeros(3, 3, device="cuda"))


SIZE, HIDDEN, LAYERS = 4, 5, 3


def results_of(lstm, sequences, states, packed):
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
        results_of(lstm, inputs, states if with_states else None, packed) for lstm in (ours, theirs)
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
