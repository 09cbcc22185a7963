"""The fused cell is used where it computes what the plain one does."""

import pytest
import torch
from simulated_cuda import kernels as simulated
from simulated_cuda.device import SimulatedCuda

from parser.batching.forest import Forest, forest_lstm
from parser.batching.lstm import fused_cell, has_fused_cell, lstm_cell

OPERATOR = "_thnn_fused_lstm_cell"


@pytest.fixture
def cuda():
    with SimulatedCuda() as device:
        yield device


def missing(*tensors):
    raise NotImplementedError(OPERATOR)


def with_other_gates(of_input, of_hidden, previous):
    hidden, cell, active = simulated.fused_cell(of_input, of_hidden.flip(1), previous)
    return hidden, cell, active


def results(device):
    """States and gradients of a cell and of a forest."""
    torch.manual_seed(0)
    both, previous = torch.randn(2, 5, 12).to(device).requires_grad_(), torch.randn(5, 3).to(device)
    weight = torch.randn(12, 3).to(device).requires_grad_()
    forest = Forest.of(torch.tensor([-1, 0, 0, 2, -1]), torch.tensor([0, 1, 1, 2, 0])).to(device)
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
