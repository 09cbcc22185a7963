"""The sparsely gated layer as the speed harness measures it."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext

import pytest
import torch
from pydantic import ValidationError
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from parser.benchmarks.conformance import faults_of
from parser.benchmarks.experts import mixture_of_experts_plugin as mixture_of_experts
from parser.benchmarks.experts.mixture_of_experts_plugin import MixtureOfExperts, MixtureOfExpertsSettings
from parser.benchmarks.experts.network import EXPERT_METHODS
from parser.benchmarks.plugin import Setup

SMALL = {"experts": 5, "input_size": 8, "hidden_size": 12, "output_size": 4, "examples": 10}


def setup(method="none", mode="train", size=4, device="cpu", phase=lambda name: nullcontext(), **changed):
    settings = MixtureOfExpertsSettings(**{**SMALL, **changed})
    return Setup(settings, method, mode, size, torch.device(device), 1, phase)


def prepared(*arguments, **changed):
    plugin = MixtureOfExperts()
    plugin.prepare(setup(*arguments, **changed))
    return plugin


def test_it_does_all_that_plugins_must():
    assert faults_of(MixtureOfExperts) == []


@pytest.mark.parametrize("method", EXPERT_METHODS)
@pytest.mark.parametrize("mode", ["train", "infer"])
@pytest.mark.parametrize("chosen", [1, 3])
def test_every_method_gives_the_cpus_results_on_the_device(method, mode, chosen, device):
    if reason := MixtureOfExperts().skip(setup(method, mode, device=device)):
        pytest.skip(reason)
    expected = prepared("none", mode, chosen=chosen).check()
    found = prepared(method, mode, 10, device, chosen=chosen).check().cpu()
    torch.testing.assert_close(found, expected, rtol=2e-4, atol=2e-4)


def test_an_epoch_holds_a_full_batch_at_least():
    assert [len(batch.inputs) for batch in prepared(size=4).batches()] == [4, 4, 2]
    assert [len(batch.inputs) for batch in prepared(size=12).batches()] == [12]


def plain_example(chosen, mode):
    """What the layer does with one example, by torch's own layers and their backward pass."""
    row = torch.randn(1, 8)
    shares = nn.Linear(8, 5)(row).topk(chosen).values.softmax(1)
    experts = [nn.Sequential(nn.Linear(8, 12), nn.ReLU(), nn.Linear(12, 4)) for _ in range(chosen)]
    outputs = torch.stack([expert(row) for expert in experts])
    if chosen > 1:
        outputs = outputs * shares.T[:, :, None]
    if mode == "train":
        outputs.sum().backward()


@pytest.mark.parametrize("chosen", [1, 3])
@pytest.mark.parametrize("mode", ["train", "infer"])
def test_the_operations_are_those_of_the_products(mode, chosen):
    plugin = prepared("none", mode, size=1, chosen=chosen)
    with FlopCounterMode(display=False) as counter:
        plain_example(chosen, mode)
    assert counter.get_total_flops() == plugin.work(plugin.batches()[0]).operations


def test_where_there_is_no_grouped_product_the_method_is_skipped(monkeypatch):
    monkeypatch.setattr(mixture_of_experts, "why_not_grouped", lambda *_: "none here")
    reasons = {method: MixtureOfExperts().skip(setup(method)) for method in EXPERT_METHODS}
    assert reasons == {"none": None, "static": None, "grouped": "none here"}


def test_the_calls_of_experts_are_counted():
    calls = {}
    for method in EXPERT_METHODS:
        plugin = prepared(method, size=10, chosen=2)
        [batch] = plugin.batches()
        calls[method] = plugin.work(batch).counts["calls of experts"]
    assert calls["none"] == 20
    assert calls["static"] <= SMALL["experts"]
    assert calls["grouped"] == 1


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


def test_more_chosen_experts_than_there_are_are_an_error():
    with pytest.raises(ValidationError, match="chosen: 6 is more than the 5 experts"):
        setup(chosen=6)


@pytest.mark.parametrize("mode", ["train", "infer"])
def test_what_does_not_fit_in_memory_is_skipped(mode, monkeypatch):
    cell = setup(mode=mode)
    weights = 8 * 12 + 12 + 12 * 4 + 4
    needed = 4 * weights * (5 + 4 * (mode == "train"))
    monkeypatch.setattr(mixture_of_experts, "free_memory", lambda device: needed)
    assert MixtureOfExperts().skip(cell) is None
    monkeypatch.setattr(mixture_of_experts, "free_memory", lambda device: needed - 1)
    assert "GB of memory" in MixtureOfExperts().skip(cell)


def test_where_the_available_memory_is_unknown_nothing_is_skipped(monkeypatch):
    monkeypatch.setattr(mixture_of_experts, "free_memory", lambda device: None)
    assert MixtureOfExperts().skip(setup()) is None
