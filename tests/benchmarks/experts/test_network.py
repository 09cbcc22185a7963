"""The sparsely gated layer: every way of running it equals torch's linear layers, example by example."""

from __future__ import annotations

import copy
from contextlib import contextmanager

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from parser.batching import functional
from parser.batching.groups import why_not_grouped
from parser.benchmarks.experts.network import EXPERT_METHODS, Around, Experts, ExpertSizes

SIZES = ExpertSizes(experts=7, inputs=8, hidden=12, outputs=16)
BATCH = 9


def layer(device, chosen=1, dtype=torch.double, **changed):
    return Experts(SIZES._replace(chosen=chosen, **changed)).to(device, dtype)


def examples(device, dtype=torch.double, batch=BATCH):
    inputs = torch.randn(batch, SIZES.inputs, device=device, dtype=dtype, requires_grad=True)
    return inputs, torch.randn(batch, SIZES.outputs, device=device, dtype=dtype)


def with_gradients(network, inputs, weights, outputs):
    """Outputs, and the gradients of their weighted sum at the inputs and at all parameters."""
    inputs.grad = None
    network.zero_grad()
    (outputs * weights).sum().backward()
    gradients = [
        torch.zeros_like(tensor) if tensor.grad is None else tensor.grad.to_dense()
        for tensor in (inputs, *network.parameters())
    ]
    return [outputs.detach(), *gradients]


def plainly(experts, inputs):
    """As the paper writes it, by torch's linear layers, one example after the other."""
    weights = (experts.first, experts.first_bias, experts.second, experts.second_bias)
    outputs = []
    for row in inputs:
        best, numbers = experts.gate(row).topk(experts.sizes.chosen)
        found = torch.zeros(experts.sizes.outputs, device=row.device, dtype=row.dtype)
        for share, number in zip(best.softmax(0), numbers.tolist(), strict=True):
            first, first_bias, second, second_bias = (stack[number] for stack in weights)
            found = found + share * F.linear(F.linear(row, first.T, first_bias).relu(), second.T, second_bias)
        outputs.append(found)
    return torch.stack(outputs)


def skip_unless(method, device, dtype):
    if method == "grouped" and (reason := why_not_grouped(device, dtype, 8, 12)):
        pytest.skip(reason)


@pytest.mark.parametrize("method", EXPERT_METHODS)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.double, 1e-9), (torch.float, 1e-4)])
@pytest.mark.parametrize("chosen", [1, 2, 7])
@pytest.mark.parametrize("batch", [1, BATCH, 60])
def test_outputs_and_gradients_are_those_of_linear_layers(method, dtype, tolerance, chosen, batch, device):
    skip_unless(method, device, dtype)
    experts = layer(device, chosen, dtype)
    inputs, weights = examples(device, dtype, batch)
    expected = with_gradients(experts, inputs, weights, plainly(experts, inputs))
    found = with_gradients(experts, inputs, weights, experts(inputs, experts.route(inputs, method)))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


def test_both_kinds_of_kernels_give_the_same(device, monkeypatch):
    experts = layer(device, dtype=torch.float, experts=2)
    inputs, weights = examples(device, torch.float, batch=100)
    expected = with_gradients(experts, inputs, weights, plainly(experts, inputs))
    monkeypatch.setattr(functional, "mkl_leaves_units_idle", lambda processor: True)
    found = with_gradients(experts, inputs, weights, experts(inputs, experts.route(inputs, "static")))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("method", EXPERT_METHODS)
def test_no_examples_give_no_outputs(method, device):
    skip_unless(method, device, torch.float)
    experts = layer(device, chosen=2, dtype=torch.float)
    inputs, weights = examples(device, torch.float, batch=0)
    found = with_gradients(experts, inputs, weights, experts(inputs, experts.route(inputs, method)))
    assert found[0].shape == (0, SIZES.outputs)
    assert not any(gradient.any() for gradient in found[1:])


@pytest.mark.parametrize("method", ["none", "static"])
def test_experts_that_are_not_used_have_no_gradients(method, device):
    experts = layer(device, experts=100)
    inputs, _ = examples(device)
    experts(inputs, experts.route(inputs, method)).sum().backward()
    used = experts.gate(inputs).argmax(1).unique()
    for stack in (experts.first, experts.first_bias, experts.second, experts.second_bias):
        assert stack.grad.is_sparse
        assert torch.equal(stack.grad._indices()[0], used)


def test_as_one_there_are_no_more_gradients_than_calls(device):
    skip_unless("grouped", device, torch.float)
    experts = layer(device, dtype=torch.float, experts=100)
    inputs, _ = examples(device, torch.float)
    experts(inputs, experts.route(inputs, "grouped")).sum().backward()
    used = experts.gate(inputs).argmax(1).unique()
    found = experts.first.grad._indices()[0]
    assert len(found) == BATCH
    assert set(used.tolist()) <= set(found.tolist())


def test_steps_by_sparse_gradients_are_those_by_dense_ones(device):
    sparse = layer(device, chosen=2)
    dense = copy.deepcopy(sparse)
    inputs, weights = examples(device)
    optimizers = [torch.optim.SGD(network.parameters(), lr=0.1) for network in (sparse, dense)]
    for _ in range(3):
        for network, optimizer in zip((sparse, dense), optimizers, strict=True):
            optimizer.zero_grad()
            (network(inputs, network.route(inputs, "static")) * weights).sum().backward()
            if network is dense:
                for weight in network.parameters():
                    weight.grad = weight.grad.to_dense()
            optimizer.step()
    for one, other in zip(sparse.parameters(), dense.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("method", EXPERT_METHODS)
def test_the_experts_work_is_entered_once_each_way(method, device):
    skip_unless(method, device, torch.float)
    entered = []

    @contextmanager
    def entering(name):
        entered.append(name)
        yield

    experts = layer(device, dtype=torch.float)
    inputs, _ = examples(device, torch.float)
    around = Around(lambda: entering("forward"), lambda: entering("backward"))
    experts(inputs, experts.route(inputs, method), around).sum().backward()
    assert entered == ["forward", "backward"]


def test_weights_begin_as_those_of_linear_layers():
    torch.manual_seed(1)
    experts = Experts(ExpertSizes(experts=50, inputs=20, hidden=30, outputs=10))
    linear = nn.Linear(30, 10)
    for stack, like in ((experts.second, linear.weight), (experts.second_bias, linear.bias)):
        assert stack.abs().max() <= 30**-0.5
        assert stack.std().item() == pytest.approx(like.std().item(), rel=0.3)


def test_more_experts_than_there_are_can_not_be_chosen():
    with pytest.raises(ValueError, match="8 experts cannot be chosen of 7"):
        layer("cpu", chosen=8)
