"""The sparsely gated layer: alone, compared with torch's linear layers, and in the speed harness."""

from __future__ import annotations

import copy
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace

import plugin_setups
import pytest
import torch
import torch.nn.functional as F
from extended import first_of
from plugin_setups import with_settings
from pydantic import ValidationError
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from parser.batching import functional
from parser.batching.functional import computing_in, why_unsupported
from parser.batching.groups import why_not_grouped
from parser.speed.tasks.conformance import faults_of
from parser.speed.tasks.experts import methods as experts_methods
from parser.speed.tasks.experts.methods import METHODS
from parser.speed.tasks.experts.mixture_of_experts_plugin import MixtureOfExperts
from parser.speed.tasks.experts.network import Around, ExpertSizes, Gate
from parser.system.machine import processor

EXPERT_METHODS = METHODS["train"]
CALLING_METHODS = "none", "static", "grouped"
SIZES = ExpertSizes(experts=7, inputs=8, hidden=12, outputs=16)
BATCH = 9


def make_experts(sizes, method, mode="train"):
    cell = SimpleNamespace(mode=mode, method=method)
    return METHODS.chosen(cell).make(cell, sizes)


def layer(device, method="none", chosen=1, dtype=torch.double, **changed):
    return make_experts(SIZES._replace(chosen=chosen, **changed), method).to(device, dtype)


def outputs_of(experts, inputs, noise=None, around=None):
    choice = experts.gate(inputs, noise)
    return experts(inputs, choice, experts.route(choice), around or Around())


def examples(device, dtype=torch.double, batch=BATCH):
    inputs = torch.randn(batch, SIZES.inputs, device=device, dtype=dtype, requires_grad=True)
    return inputs, torch.randn(batch, SIZES.outputs, device=device, dtype=dtype)


def with_gradients(network, inputs, weights, outputs):
    """The outputs, and the gradients of their weighted sum for the inputs and all parameters."""
    inputs.grad = None
    network.zero_grad()
    if outputs.requires_grad:  # without calls a loop over experts has no gradients
        (outputs * weights).sum().backward()
    gradients = [
        torch.zeros_like(tensor) if tensor.grad is None else tensor.grad.to_dense()
        for tensor in (inputs, *network.parameters())
    ]
    return [outputs.detach(), *gradients]


def plainly(experts, inputs, noise=None):
    """The layer as in the papers, with torch's linear layers, one example after the other."""
    outputs = []
    for place, row in enumerate(inputs):
        scores = experts.gate.score(row)
        if experts.gate.scale:
            scores = scores + noise[place] * (1 + experts.gate.scale(row).exp()).log()
        best, numbers = scores.topk(experts.sizes.chosen)
        found = torch.zeros(experts.sizes.outputs, device=row.device, dtype=row.dtype)
        for share, number in zip(best.softmax(0), numbers.tolist(), strict=True):
            first, first_bias, second, second_bias = (stack[number] for stack in experts.stacks)
            found = found + share * F.linear(F.linear(row, first.T, first_bias).relu(), second.T, second_bias)
        outputs.append(found)
    return torch.stack(outputs)


def assert_plain(experts, inputs, weights, tolerance, noise=None):
    """Check outputs and gradients."""
    expected = with_gradients(experts, inputs, weights, plainly(experts, inputs, noise))
    found = with_gradients(experts, inputs, weights, outputs_of(experts, inputs, noise))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


def skip_unless(method, device, dtype):
    if method in ("grouped", "library") and (reason := why_not_grouped(device, dtype, 8, 12)):
        pytest.skip(reason)


@pytest.mark.parametrize("method", EXPERT_METHODS)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.double, 1e-9), (torch.float, 1e-4)])
@pytest.mark.parametrize("chosen", [1, 2, 7])
@pytest.mark.parametrize("batch", first_of([BATCH, 1, 60]))
def test_outputs_and_gradients_are_those_of_linear_layers(method, dtype, tolerance, chosen, batch, device):
    skip_unless(method, device, dtype)
    experts = layer(device, method, chosen, dtype)
    inputs, weights = examples(device, dtype, batch)
    assert_plain(experts, inputs, weights, tolerance)


@pytest.mark.parametrize("method", EXPERT_METHODS)
@pytest.mark.parametrize("chosen", [1, 3])
def test_with_the_same_noise_all_methods_choose_and_learn_the_same(method, chosen, device):
    skip_unless(method, device, torch.double)
    experts = layer(device, method, chosen, noisy=True)
    inputs, weights = examples(device)
    noise = torch.randn(BATCH, SIZES.experts, device=device, dtype=torch.double)
    assert_plain(experts, inputs, weights, 1e-9, noise)
    learns = [bool(weight.grad.any()) for weight in experts.gate.parameters() if weight.grad is not None]
    assert learns == ([] if chosen == 1 else [True] * 4)


def test_a_noisy_gate_draws_noise_of_the_scale_it_learned(device):
    gate = Gate(inputs=8, experts=5, chosen=2, noisy=True).to(device)
    inputs = torch.randn(1000, 8, device=device)
    plain = gate.score(inputs).topk(2).indices
    assert not torch.equal(gate(inputs).expert, gate(inputs).expert)
    with torch.no_grad():
        gate.scale.weight.zero_()
        gate.scale.bias.fill_(-50)  # a scale of nearly 0
    assert torch.equal(gate(inputs).expert, plain)
    with torch.no_grad():
        gate.scale.bias.fill_(1e4)  # only the noise decides
    frequencies = gate(inputs).expert.flatten().bincount(minlength=5) / 2000
    assert ((frequencies - 1 / 5).abs() < 0.05).all()


def test_both_kinds_of_kernels_give_the_same(device, monkeypatch):
    experts = layer(device, "static", dtype=torch.float, experts=2)
    monkeypatch.setattr(functional, "mkl_leaves_units_idle", lambda processor: True)
    assert_plain(experts, *examples(device, torch.float, batch=100), tolerance=1e-4)


@pytest.mark.parametrize("method", EXPERT_METHODS)
def test_no_examples_give_no_outputs(method, device):
    skip_unless(method, device, torch.float)
    experts = layer(device, method, chosen=2, dtype=torch.float)
    inputs, weights = examples(device, torch.float, batch=0)
    found = with_gradients(experts, inputs, weights, outputs_of(experts, inputs))
    assert found[0].shape == (0, SIZES.outputs)
    assert not any(gradient.any() for gradient in found[1:])


@pytest.mark.parametrize("method", ["none", "static", "grouped"])
def test_experts_that_are_not_used_have_no_gradients(method, device):
    """A grouped product has a row of gradients for each call, the others one for each expert."""
    skip_unless(method, device, torch.float)
    experts = layer(device, method, dtype=torch.float, experts=100)
    inputs, _ = examples(device, torch.float)
    outputs_of(experts, inputs).sum().backward()
    used = experts.gate.score(inputs).argmax(1).unique()
    for stack in [experts.first] if method == "grouped" else experts.stacks:
        assert stack.grad.is_sparse
        rows = stack.grad._indices()[0]
        assert len(rows) == (BATCH if method == "grouped" else len(used))
        assert set(used.tolist()) <= set(rows.tolist())


def test_steps_by_sparse_gradients_are_those_by_dense_ones(device):
    sparse = layer(device, "static", chosen=2)
    dense = copy.deepcopy(sparse)
    inputs, weights = examples(device)
    optimizers = [torch.optim.SGD(network.parameters(), lr=0.1) for network in (sparse, dense)]
    for _ in range(3):
        for network, optimizer in zip((sparse, dense), optimizers, strict=True):
            optimizer.zero_grad()
            (outputs_of(network, inputs) * weights).sum().backward()
            if network is dense:
                for weight in network.parameters():
                    weight.grad = weight.grad.to_dense()
            optimizer.step()
    for one, other in zip(sparse.parameters(), dense.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("method", CALLING_METHODS)
def test_the_experts_work_is_entered_once_each_way(method, device):
    skip_unless(method, device, torch.float)
    entered = []

    @contextmanager
    def entering(name):
        entered.append(name)
        yield

    experts = layer(device, method, dtype=torch.float)
    inputs, _ = examples(device, torch.float)
    around = Around(lambda: entering("forward"), lambda: entering("backward"))
    outputs_of(experts, inputs, around=around).sum().backward()
    assert entered == ["forward", "backward"]


def test_weights_begin_as_those_of_linear_layers():
    torch.manual_seed(1)
    experts = make_experts(ExpertSizes(experts=50, inputs=20, hidden=30, outputs=10), "none")
    linear = nn.Linear(30, 10)
    for stack, like in ((experts.second, linear.weight), (experts.second_bias, linear.bias)):
        assert stack.abs().max() <= 30**-0.5
        assert stack.std().item() == pytest.approx(like.std().item(), rel=0.3)


def test_more_experts_than_there_are_can_not_be_chosen():
    with pytest.raises(ValueError, match=r"8 experts .* 7"):
        layer("cpu", chosen=8)
    with pytest.raises(ValidationError, match=r"chosen: 6 .* 5"):
        setup(chosen=6)


@pytest.mark.parametrize("mode", ["train", "infer"])
@pytest.mark.parametrize("method", EXPERT_METHODS)
def test_in_bfloat16_the_results_are_nearly_those_of_float32(method, mode, device):
    if reason := why_unsupported("bfloat16", torch.device(device), processor()):
        pytest.skip(reason)
    wide = {"experts": 3, "chosen": 2, "input_size": 64, "hidden_size": 128, "output_size": 64}
    expected = prepared("none", mode, 1, device, **wide).check().cpu()
    with computing_in("bfloat16", torch.device(device)):
        if reason := Experts().skip(setup(method, mode, device=device, **wide)):
            pytest.skip(reason)
        found = prepared(method, mode, 24, device, **wide).check().cpu()
    torch.testing.assert_close(found, expected, rtol=5e-2, atol=1e-3)
    if method in ("grouped", "loop", "library"):
        assert not torch.equal(found, expected)


Experts = with_settings(MixtureOfExperts, experts=5, input_size=8, hidden_size=12, output_size=4, examples=10)
setup, prepared = partial(plugin_setups.setup_of, Experts), partial(plugin_setups.prepared, Experts)


@pytest.mark.extended
def test_it_does_all_that_plugins_must():
    assert faults_of(MixtureOfExperts) == []


@pytest.mark.parametrize("method", EXPERT_METHODS)
@pytest.mark.parametrize("mode", ["train", "infer"])
@pytest.mark.parametrize("chosen", [1, 3])
@pytest.mark.parametrize("gate", first_of(["plain", "noisy"]))
def test_every_method_gives_the_cpus_results_on_the_device(method, mode, chosen, gate, device):
    if reason := Experts().skip(setup(method, mode, device=device)):
        pytest.skip(reason)
    expected = prepared("none", mode, chosen=chosen, gate=gate).check()
    found = prepared(method, mode, 10, device, chosen=chosen, gate=gate).check().cpu()
    torch.testing.assert_close(found, expected, rtol=2e-4, atol=2e-4)


def test_an_epoch_holds_a_full_batch_at_least():
    assert [len(batch.inputs) for batch in prepared(size=4).batches()] == [4, 4, 2]
    assert [len(batch.inputs) for batch in prepared(size=12).batches()] == [12]


def plain_example(chosen, mode, gate):
    """Does what the layer does with one example, with torch's own layers and their backward pass."""
    row = torch.randn(1, 8)
    scores = nn.Linear(8, 5)(row)
    if gate == "noisy":
        scores = scores + torch.randn(1, 5) * F.softplus(nn.Linear(8, 5)(row))
    shares = scores.topk(chosen).values.softmax(1)
    experts = [nn.Sequential(nn.Linear(8, 12), nn.ReLU(), nn.Linear(12, 4)) for _ in range(chosen)]
    outputs = torch.stack([expert(row) for expert in experts])
    if chosen > 1:
        outputs = outputs * shares.T[:, :, None]
    if mode == "train":
        outputs.sum().backward()


@pytest.mark.parametrize("chosen", [1, 3])
@pytest.mark.parametrize("mode", ["train", "infer"])
@pytest.mark.parametrize("gate", ["plain", "noisy"])
def test_the_operations_are_those_of_the_products(gate, mode, chosen):
    plugin = prepared("none", mode, size=1, chosen=chosen, gate=gate)
    with FlopCounterMode(display=False) as counter:
        plain_example(chosen, mode, gate)
    assert counter.get_total_flops() == plugin.work(plugin.batches()[0]).operations


def test_where_there_is_no_grouped_product_the_method_is_skipped(monkeypatch):
    monkeypatch.setattr(experts_methods, "why_not_grouped", lambda *_: "none here")
    reasons = {method: Experts().skip(setup(method)) for method in EXPERT_METHODS}
    missing = {"grouped", "library"}
    assert reasons == {method: "none here" if method in missing else None for method in EXPERT_METHODS}


def test_the_calls_of_experts_are_counted():
    calls = {}
    for method in EXPERT_METHODS:
        plugin = prepared(method, size=10, chosen=2)
        [batch] = plugin.batches()
        calls[method] = plugin.work(batch).counts["calls of experts"]
    assert calls["none"] == 20
    assert calls["static"] == calls["loop"] <= 5
    assert calls["grouped"] == calls["library"] == 1


def test_the_experts_work_is_told_apart():
    entered = []

    @contextmanager
    def phase(name):
        entered.append(name)
        yield

    plugin = prepared("static", phase=phase)
    plugin.run(plugin.batches()[0])
    expected = ["scheduling", "forward", "cells", "forward", "backward", "cells backward", "update"]
    assert entered == expected


@pytest.mark.parametrize("mode", ["train", "infer"])
def test_what_does_not_fit_in_memory_is_skipped(mode, monkeypatch):
    weights = 8 * 12 + 12 + 12 * 4 + 4
    needed = 4 * weights * (5 + 4 * (mode == "train"))
    for free, fits in ((needed, True), (needed - 1, False), (None, True)):  # None: unknown
        monkeypatch.setattr(experts_methods, "free_memory", lambda device, free=free: free)
        reason = Experts().skip(setup(mode=mode))
        assert reason is None if fits else "GB of memory" in reason


def test_autograd_needs_room_for_the_gradients_of_all_experts(monkeypatch):
    monkeypatch.setattr(experts_methods, "free_memory", lambda device: 0)
    monkeypatch.setattr(experts_methods, "why_not_grouped", lambda *_: None)
    skipped = {method: Experts().skip(setup(method, size=2, experts=50_000)) for method in EXPERT_METHODS}
    needed = {method: float(why.split()[0]) for method, why in skipped.items()}
    assert needed["static"] < needed["loop"] == needed["library"]
