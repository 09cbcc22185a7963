"""Plugins that are trained by messages."""

from __future__ import annotations

import struct
from contextlib import nullcontext

import pytest
import torch
from extended import first_of
from torch.utils.flop_counter import FlopCounterMode

from parser.benchmarks.conformance import faults_of
from parser.benchmarks.digits.mnist_mlp_plugin import MnistPlugin, MnistSettings
from parser.benchmarks.graphs.graph_network_plugin import GraphNetworkPlugin, GraphNetworkSettings
from parser.benchmarks.lists.list_reduction_plugin import ListReductionPlugin, ListReductionSettings
from parser.benchmarks.plugin import Setup
from parser.benchmarks.tree_lstm.tree_lstm_plugin import MadeTrees, TreeLSTMPlugin, TreeLSTMSettings


class Digits(MnistPlugin):
    class Settings(MnistSettings):
        made: int = 24
        hidden_size: int = 8
        together: int = 3
        held_out: int = 8


class Lists(ListReductionPlugin):
    class Settings(ListReductionSettings):
        lists: int = 24
        hidden_size: int = 8
        together: int = 3
        update_cell_after: int = 1
        held_out: int = 8


class Deductions(GraphNetworkPlugin):
    class Settings(GraphNetworkSettings):
        made: int = 6
        nodes: int | None = 8
        steps: int = 1
        together: int = 3


class Molecules(GraphNetworkPlugin):
    class Settings(GraphNetworkSettings):
        task: str = "molecules"
        made: int = 6
        steps: int = 1
        hidden_size: int = 6
        together: int = 3


class Trees(TreeLSTMPlugin):
    class Settings(TreeLSTMSettings):
        made: MadeTrees = MadeTrees(trees=8, longest=6)
        word_size: int = 4
        hidden_size: int = 5


PLUGINS = (Digits, Lists, Deductions, Molecules)


def setup_of(plugin, method="none", batch_size=5, phase=lambda _: nullcontext(), **settings):
    return Setup(
        plugin.Settings(**settings), method, "train", batch_size, torch.device("cpu"), 1, phase, threads=2
    )


def prepared(kind, **given):
    plugin = kind()
    plugin.prepare(setup_of(plugin, **given))
    return plugin


@pytest.mark.parametrize("plugin", first_of([*PLUGINS, Trees]))
def test_the_plugin_does_all_that_it_must(plugin):
    assert faults_of(plugin) == []


@pytest.mark.parametrize("kind", PLUGINS)
def test_operations_are_those_that_torch_counts(kind):
    plugin, counter = prepared(kind), FlopCounterMode(display=False)
    batch = plugin.batches()[0]
    with counter:
        plugin.run(batch)
    assert plugin.work(batch).operations == counter.get_total_flops()


@pytest.mark.parametrize("kind", PLUGINS)
def test_one_batch_at_a_time_learns_what_plain_training_learns(kind):
    """Every node is updated once for a batch, if the cell of the lists gets its gradients of one length."""
    settings = {"longest": 1, "update_cell_after": 2, "update_embedding_after": 2} if kind is Lists else {}
    plain, active = (prepared(kind, method=method, **settings) for method in ("none", "active-1"))
    for plugin in (plain, active):
        for epoch in (1, 2):
            plugin.learn(epoch)
    torch.testing.assert_close(active.check(), plain.check(), rtol=1e-4, atol=1e-4)
    assert active.score() == pytest.approx(plain.score(), abs=1e-4)


def test_a_message_for_each_edge_learns_what_one_for_all_learns():
    """Without molecules, of which a batch has not always the same number of nodes."""
    fused, single = (prepared(Deductions, method=method) for method in ("active-1", "edges-active-1"))
    for plugin in (fused, single):
        plugin.learn(1)
    torch.testing.assert_close(single.check(), fused.check(), rtol=1e-4, atol=1e-4)


@pytest.mark.extended
@pytest.mark.parametrize("kind", PLUGINS)
def test_many_batches_on_their_way_learn_too(kind):
    plugin = prepared(kind, method="active-4", learning_rate=1e-2)
    before, losses = plugin.check()[0], []
    for epoch in range(1, 21):
        plugin.learn(epoch)
        losses.append(plugin.check()[0])
    # How late the gradients are depends on what else the machine does, and so does the last loss.
    assert min(losses) < 0.9 * before


@pytest.mark.parametrize("kind", [Digits, Trees])
def test_it_says_how_late_gradients_were(kind):
    settings = {"update_branch_after": 1000} if kind is Trees else {}  # not in the middle of a tree
    methods = ("none", "active-1", "active-16")
    plain, one, many = (prepared(kind, method=method, **settings) for method in methods)
    for plugin in (plain, one, many):
        plugin.learn(1)
    assert plain.notes() == {}
    assert one.notes() == {"updates late": 0.0}
    assert many.notes()["updates late"] > 0


def test_plain_training_has_one_replica():
    one, two = (prepared(Lists, replicas=replicas) for replicas in (1, 2))
    for plugin in (one, two):
        plugin.learn(1)
    assert torch.equal(one.check()[0], two.check()[0])


def test_replicas_are_alike_after_an_epoch():
    plugin = prepared(Lists, method="active-4", replicas=2)
    plugin.learn(1)
    first, second = (list(cell.parameters()) for cell in plugin._network.cells)
    torch.testing.assert_close(first, second)


def test_gradients_that_are_too_few_are_used_at_the_end_of_an_epoch():
    plugin = prepared(Digits, method="active-1", update_after=1000)
    before = plugin.check()
    plugin.run(plugin.batches()[0])
    assert torch.equal(plugin.check(), before)
    plugin.learn(1)
    assert not torch.equal(plugin.check(), before)


def test_checking_leaves_what_is_gathered():
    plugin, other = (prepared(Digits, method="active-1", update_after=2) for _ in range(2))
    for each in (plugin, other):
        each.run(each.batches()[0][:1])
        if each is plugin:
            each.check()
        each.run(each.batches()[0][1:2])
    assert torch.equal(plugin.check(), other.check())


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"images": "there"}, "give both"),
        ({"tiles": [1, 3, 1]}, "hidden_size 8 cannot be cut into 3"),
        ({"held_out": 24}, "24 of 24 images leave none"),
    ],
)
def test_digits_that_can_not_be_had(settings, says):
    with pytest.raises(ValueError, match=says):
        prepared(Digits, **settings)


def test_images_and_labels_of_different_files(tmp_path):
    images, labels = tmp_path / "images", tmp_path / "labels"
    images.write_bytes(struct.pack(">IIII", 2051, 3, 2, 2) + bytes(12))
    labels.write_bytes(struct.pack(">II", 2049, 2) + bytes(2))
    with pytest.raises(ValueError, match=r"images has 3 images, but .*labels 2 labels"):
        prepared(Digits, images=str(images), labels=str(labels))


def test_molecules_are_not_a_matrix():
    plugin = Molecules()
    assert "different sizes" in plugin.skip(setup_of(plugin, method="dense"))


def test_nothing_held_out_is_no_score():
    plugin = prepared(Digits, held_out=0)
    with pytest.raises(ValueError, match="nothing is held out"):
        plugin.score()
