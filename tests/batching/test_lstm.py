"""Our LSTM kernels compared with those of PyTorch, and when the fused cell is used."""

import pytest
import torch
from simulated_cuda import operators as simulated
from torch import nn

from parser.batching.forest import SortedForest, forest_lstm, lstm_over_forest
from parser.batching.lstm import fused_cell, has_fused_cell, lstm_cell
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
