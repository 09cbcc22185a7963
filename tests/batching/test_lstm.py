"""Our LSTM kernels against those of PyTorch."""

import pytest
import torch
from torch import nn

from parser.baselines.stepped_lstm import SteppedLSTM, output
from parser.batching.forest import Forest, forest_lstm, lstm_over_forest
from parser.batching.lstm import lstm_cell


@pytest.fixture(autouse=True, params=["slow tanh", "fast tanh"])
def _kernels(request, monkeypatch):
    """Test both kinds of kernels, whatever CPU the machine has."""
    monkeypatch.setattr("parser.batching.lstm.tanh_is_slow", lambda tensor: request.param == "slow tanh")


def chains(batch, frames):
    """A forest of sequences: node = frame * batch + sequence."""
    nodes = torch.arange(batch * frames)
    return Forest.of((nodes - batch).clamp(min=-1), nodes // batch)


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
        sequences = chains(4, 7).to(device)
        hidden = lstm_over_forest(lstm, inputs.flatten(0, 1)[sequences.order], sequences)
        return hidden[sequences.position].view(7, 4, 6)

    results = []
    for run in (library, frame_by_frame, forest):
        lstm.zero_grad()
        outputs = run()
        (outputs * mixture).sum().backward()
        results.append([outputs.detach(), *(weight.grad.clone() for weight in lstm.parameters())])
    tolerance = 1e-5 if dtype == torch.float32 else 1e-10
    for ours in results[1:]:
        for our, theirs in zip(ours, results[0], strict=True):
            torch.testing.assert_close(our, theirs, rtol=tolerance, atol=tolerance)


def test_gradients_of_the_cell(device):
    gates = torch.randn(2, 3, 20, dtype=torch.double, device=device, requires_grad=True)
    cell = torch.randn(3, 5, dtype=torch.double, device=device, requires_grad=True)
    assert torch.autograd.gradcheck(lambda both, previous: lstm_cell(*both, previous), (gates, cell))


def test_gradients_of_a_forest_with_branches(device):
    parent = torch.tensor([-1, 0, 0, 1, 1, 1, 4, -1])
    depth = torch.tensor([0, 1, 1, 2, 2, 2, 3, 0])
    forest = Forest.of(parent, depth).to(device)
    gates = torch.randn(8, 12, dtype=torch.double, device=device, requires_grad=True)
    weight = torch.randn(12, 3, dtype=torch.double, device=device, requires_grad=True)
    assert torch.autograd.gradcheck(lambda g, w: forest_lstm(g, w, forest), (gates, weight))
