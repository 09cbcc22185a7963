"""Networks as graphs of messages, compared with the same networks as a whole, and their plugins."""

from __future__ import annotations

import struct
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from extended import COMPILES, first_of
from message_graphs import check_all
from plugin_setups import prepared, setup_of, with_settings
from torch.utils.flop_counter import FlopCounterMode

from parser.batching.messages.asynchronous_updates import Parameterised, Updates, average, parameterised_nodes
from parser.batching.messages.message_graph import MessageGraph
from parser.batching.messages.workers import run
from parser.speed.tasks.conformance import faults_of
from parser.speed.tasks.digits.mnist_mlp_plugin import DigitClassifier, MnistPlugin
from parser.speed.tasks.graphs.graph_network_plugin import (
    CHEMICAL_ACCURACIES,
    GraphNetworkPlugin,
)
from parser.speed.tasks.graphs.messages import EdgeMessages, GraphMessages
from parser.speed.tasks.graphs.network import (
    Edge,
    GraphNetwork,
    LabelledGraph,
    batch_of,
    labelled_graph,
    selection_losses,
)
from parser.speed.tasks.lists.list_reduction_plugin import (
    ListReducer,
    ListReductionPlugin,
    Reduction,
    prepare_lists,
)
from parser.speed.tasks.message_training import evenly_mixed
from parser.speed.tasks.tree_lstm.methods import TreeMessages
from parser.speed.tasks.tree_lstm.network import BinaryTree, TreeLSTM
from parser.speed.tasks.tree_lstm.tree_lstm_plugin import (
    MadeTrees,
    TreeLSTMPlugin,
    make_trees,
    prepare_tree,
)

NO_UPDATES = Updates(partial(torch.optim.SGD, lr=0.0), after=1 << 60)


def digits(tiles: list[int]) -> tuple[Any, list]:
    torch.manual_seed(1)
    batches = [(torch.rand(size, 6), torch.randint(3, (size,))) for size in (1, 4, 2)]
    return DigitClassifier([6, 8, 8, 3], tiles), batches


def lists(replicas: int) -> tuple[Any, list]:
    torch.manual_seed(1)
    shapes = [(2, 5), (3, 1), (1, 4), (2, 2), (4, 3)]
    batches = [(torch.randint(7, shape), torch.randint(4, shape[:1])) for shape in shapes]
    return ListReducer(7, 4, hidden_size=6, replicas=replicas), batches


def give_gradients(graph: MessageGraph) -> None:
    for node in parameterised_nodes(graph):
        node.give_gradients()


def examples_of(batch: Any) -> int:
    return len(batch.labels if isinstance(batch, BinaryTree) else batch[-1])


def parameters_of(model: Any) -> list[torch.Tensor]:
    return list(getattr(model, "network", model).parameters())


def graphs(selects: bool, dense: bool = False) -> tuple[Any, list]:
    torch.manual_seed(1)
    network = GraphNetwork(features=2, kinds=3, hidden_size=4, steps=2, selects=selects)
    shapes = [(5, 7), (5, 4), (5, 0), (5, 9)] if dense else [(5, 7), (1, 2), (8, 4), (3, 0)]
    some = [graph_of(nodes, edges) for nodes, edges in shapes]
    answers = [0, 0, 2, 1] if selects else [0.5, -1.0, 2.0, 0.0]
    batches = [batch_of(some[own], answers[own], 3) for own in (slice(0, 2), slice(2, 4), slice(0, 4))]
    return GraphMessages(network, dense), batches


def edges(selects: bool) -> tuple[Any, list]:
    model, batches = graphs(selects)
    return EdgeMessages(model.network), batches


def trees() -> tuple[Any, list]:
    torch.manual_seed(1)
    network = TreeLSTM(words=9, labels=3, word_size=4, hidden_size=5)
    made = make_trees(MadeTrees(trees=4, longest=7, vocabulary=8, labels=3), seed=1)
    words = {f"w{number}": number + 1 for number in range(8)}
    return TreeMessages(network), [prepare_tree(tree, words) for tree in made]


def graph_of(nodes: int, edges: int) -> LabelledGraph:
    ends = torch.randint(nodes, (2, edges)).numpy()
    return LabelledGraph(torch.randn(nodes, 2), ends[0], torch.randint(3, (edges,)).numpy(), ends[1])


MODELS = [
    partial(digits, [1, 1]),
    partial(digits, [1, 2]),
    partial(lists, 1),
    trees,
    *(partial(graphs, selects, dense) for selects in (True, False) for dense in (True, False)),
    *(partial(edges, selects) for selects in (True, False)),
]


def run_all(network, batches, workers, most_active, training=True) -> tuple[MessageGraph, list]:
    """The graph after all batches, and the reports."""
    graph, reports = network.graph(NO_UPDATES, workers), []
    assert graph.workers <= workers
    check_all(graph)
    instances = [network.instance(number, batch, training) for number, batch in enumerate(batches)]
    run(graph, instances, most_active, reports.append)
    assert graph.outstanding() == {}
    return graph, reports


@pytest.mark.parametrize("workers", first_of([2, 1, 3]))
@pytest.mark.parametrize("made", MODELS)
def test_losses_and_gradients_are_those_of_the_whole(made, workers):
    network, batches = made()
    expected = [network.losses(batch) for batch in batches]
    sum(each.loss for each in expected).backward()
    parameters = parameters_of(network)
    gradients = [weight.grad.to_dense().clone() for weight in parameters]
    for weight in parameters:
        weight.grad = None
    graph, reports = run_all(network, batches, workers, most_active=3)
    give_gradients(graph)
    for number, whole in enumerate(expected):
        own = [report for report in reports if report.state.instance == number]
        assert sum(report.loss for report in own) == pytest.approx(whole.loss.item(), rel=1e-5)
        assert sum(report.right for report in own) == whole.right
    torch.testing.assert_close([weight.grad.to_dense() for weight in parameters], gradients)


@pytest.mark.parametrize("made", [*MODELS, partial(lists, 2)])
def test_inference_leaves_nothing_behind(made):
    network, batches = made()
    _, reports = run_all(network, batches, 2, most_active=3, training=False)
    assert sum(report.examples for report in reports) == sum(examples_of(batch) for batch in batches)
    assert all(weight.grad is None for weight in parameters_of(network))


def test_replicas_share_the_instances_and_are_averaged():
    network, batches = lists(replicas=2)
    alone, _ = lists(replicas=1)
    sum(alone.losses(batch).loss for batch in batches).backward()
    graph, _ = run_all(network, batches, 2, most_active=2)
    give_gradients(graph)
    parts = [list(cell.parameters()) for cell in (*network.cells, *alone.cells)]
    for first, second, whole in zip(*parts, strict=True):
        assert first.grad.any()
        assert second.grad.any()
        torch.testing.assert_close(first.grad + second.grad, whole.grad)
    expected = [(first + second) / 2 for first, second, _ in zip(*parts, strict=True)]
    average(network.cells)
    for cell in network.cells:
        torch.testing.assert_close(list(cell.parameters()), expected)


def test_dense_and_sparse_are_the_same_function():
    for selects in (True, False):
        (dense, batches), (sparse, _) = graphs(selects, dense=True), graphs(selects)
        for batch in batches:
            found, expected = dense.losses(batch), sparse.losses(batch)
            torch.testing.assert_close(found.loss, expected.loss)
            assert found[1:] == expected[1:]


def test_a_graph_network_is_what_it_says_node_by_node():
    model, (_, _, batch) = graphs(selects=True)
    network = model.network
    states = [F.pad(row, (0, 2)) for row in batch.features]
    kinds = [kind for kind, own in enumerate(batch.sources) for _ in own]
    edges = list(zip(torch.cat(batch.sources).tolist(), kinds, batch.targets.tolist(), strict=True))
    for _ in range(network.steps):
        brought = [
            sum((network.propagation.edges[k](states[s]) for s, k, t in edges if t == node), torch.zeros(4))
            for node in range(len(states))
        ]
        states = [
            network.propagation.update(a[None], state[None])[0]
            for a, state in zip(brought, states, strict=True)
        ]
    scores = torch.stack(
        [network.readout.score(torch.cat(both))[0] for both in zip(states, batch.features, strict=True)]
    )
    loss, right = torch.zeros(()), 0
    for graph, answer in enumerate(batch.answers.tolist()):
        own = (batch.graph == graph).nonzero().flatten()
        loss = loss - scores[own].log_softmax(0)[own.tolist().index(answer)]
        right += int((scores[own] >= scores[answer]).sum() == 1)
    found = model.losses(batch)
    torch.testing.assert_close(found.loss, loss)
    assert (found.right, found.examples) == (right, 4)


def test_dense_matrices_need_graphs_of_one_size():
    model, batches = graphs(selects=True)
    with pytest.raises(ValueError, match="the same number of nodes"):
        model.network.losses_densely(batches[0])
    assert "different sizes" in Molecules().skip(setup_of(Molecules, "dense"))


def test_who_can_not_tell_nodes_apart_is_not_right():
    losses = selection_losses(torch.zeros(5), torch.tensor([0, 0, 1, 1, 2]), torch.tensor([0, 3, 4]))
    assert losses.right == 1


MANY = {"hidden_size": 8, "together": 3, "held_out": 8}
Digits = with_settings(MnistPlugin, made=24, **MANY)
Lists = with_settings(ListReductionPlugin, lists=24, **MANY)
Deductions = with_settings(GraphNetworkPlugin, made=6, nodes=8, steps=1, together=3)
Molecules = with_settings(GraphNetworkPlugin, task="molecules", made=6, steps=1, hidden_size=6, together=3)
Trees = with_settings(TreeLSTMPlugin, made=MadeTrees(trees=8, longest=6), word_size=4, hidden_size=5)


PLUGINS = (Digits, Lists, Deductions, Molecules)


def nodes_of(plugin) -> dict[str, Parameterised]:
    """The nodes with parameters, by name."""
    nodes = plugin.messages.graph.nodes
    return {name: node for name, node in nodes.items() if isinstance(node, Parameterised)}


@pytest.mark.extended
@pytest.mark.parametrize("plugin", [*first_of(PLUGINS), pytest.param(Trees, marks=COMPILES)])
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
    """Every node is updated once per batch, as long as all lists in the data have the same length."""
    settings = {"longest": 1, "update_in_loop_after": 2} if kind is Lists else {}
    plain, active = (prepared(kind, method=method, **settings) for method in ("none", "active-1"))
    for plugin in (plain, active):
        for epoch in (1, 2):
            plugin.learn(epoch)
    torch.testing.assert_close(active.check(), plain.check(), rtol=1e-4, atol=1e-4)
    assert active.score() == pytest.approx(plain.score(), abs=1e-4)


def test_a_message_for_each_edge_learns_what_one_for_all_learns():
    """Not so for molecules: the layer of a bond kind that a batch lacks is updated only if fused."""
    settings = {"steps": 2, "update_in_loop_after": 2}
    fused, single = (prepared(Deductions, method=name, **settings) for name in ("active-1", "edges-active-1"))
    for plugin in (fused, single):
        plugin.learn(1)
    torch.testing.assert_close(single.check(), fused.check(), rtol=1e-4, atol=1e-4)


def test_all_nodes_of_a_graph_are_updated_by_one_call():
    plugin = prepared(Molecules, method="edges-active-4", steps=3)
    batches = plugin.batches()[0]
    plugin.run(batches)
    gradients = {name: node.staleness.total() for name, node in nodes_of(plugin).items()}
    assert gradients["update"] == 3 * len(batches)
    assert gradients["readout"] == len(batches)


@pytest.mark.extended
@pytest.mark.parametrize("kind", PLUGINS)
def test_many_batches_on_their_way_learn_too(kind):
    plugin = prepared(kind, method="active-4", learning_rate=1e-2)
    before, losses = plugin.check()[0], []
    for epoch in range(1, 21):
        plugin.learn(epoch)
        losses.append(plugin.check()[0])
    # How late the gradients are depends on the load of the machine, and so does the last loss.
    assert min(losses) < 0.9 * before


@pytest.mark.parametrize("kind", [Digits, Trees])
def test_it_says_how_late_gradients_were(kind):
    settings = {"update_branch_after": 1000} if kind is Trees else {}  # not within a tree
    methods = ("none", "active-1", "active-16")
    plain, one, many = (prepared(kind, method=method, **settings) for method in methods)
    for plugin in (plain, one, many):
        plugin.learn(1)
    assert plain.notes() == {}
    assert one.notes() == {"updates late": 0.0}
    assert many.notes()["updates late"] > 0


@pytest.mark.parametrize("method", ["none", "active-1", "active-4"])
def test_validation_goes_on_while_training(method):
    plugin, alone = (prepared(Digits, method, size=5) for _ in range(2))
    held_out = plugin.held_out_batches()
    ran = plugin.messages.run(plugin.batches()[0], True, held_out)
    assert [report.examples for report in ran.of(training=False)] == [5, 3]
    assert sum(report.examples for report in ran.of(training=True)) == 15
    if method == "active-4":
        return  # how late its gradients are differs from run to run
    alone.messages.run(alone.batches()[0], True)
    assert torch.equal(plugin.check(), alone.check())


def test_what_is_validated_lies_evenly_between_what_is_trained_on():
    found = evenly_mixed("abcdef", True, "xy")
    assert "".join(batch for batch, _ in found) == "abxcdeyf"
    assert [batch for batch, training in found if not training] == ["x", "y"]


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


@pytest.mark.parametrize(("after", "in_loop", "updates"), [(1, None, 6), (3, None, 2), (1, 6, 1)])
def test_updates_are_counted_in_gradients(after, in_loop, updates):
    """Two batches of lists of two digits: a cell gets a gradient for each of three tokens."""
    plugin = prepared(Lists, method="active-1", update_after=after, update_in_loop_after=in_loop)
    lists = prepare_lists([Reduction(0, (1, 2), 2)] * 2)
    plugin.run([lists, lists])
    assert nodes_of(plugin)["cell 1"].updates == updates
    assert nodes_of(plugin)["scores"].updates == 2 // after


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


def test_images_and_labels_of_different_files(tmp_path):
    images, labels = tmp_path / "images", tmp_path / "labels"
    images.write_bytes(struct.pack(">IIII", 2051, 3, 2, 2) + bytes(12))
    labels.write_bytes(struct.pack(">II", 2049, 2) + bytes(2))
    with pytest.raises(ValueError, match=r"3 images, .* 2 labels"):
        prepared(Digits, images=str(images), labels=str(labels))


def test_errors_of_molecules_are_told_in_chemical_accuracies():
    plugin = prepared(Molecules, chemical_accuracy=0.05)
    plugin.learn(1)
    errors = []
    for batch in plugin.held_out_batches():
        parts = plugin._network.scores(batch)
        for graph, answer in enumerate(batch.answers):
            errors.append(abs(parts[batch.graph == graph].sum() - answer).item())
    assert plugin.notes() == {CHEMICAL_ACCURACIES: pytest.approx(sum(errors) / len(errors) / 0.05)}
    assert prepared(Molecules).notes() == {}


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: DigitClassifier([6, 8, 8, 3], tiles=[2, 3]), "8 outputs .* 3 tiles"),
        (lambda: batch_of([labelled_graph(torch.zeros(2, 1), [Edge(0, 2, 1)])], [0], kinds=2), "kind 2"),
        (lambda: setup_of(Digits, images="there"), "give both"),
        (lambda: setup_of(Digits, tiles=[1, 3, 1]), "hidden_size 8 .* 3"),
        (lambda: prepared(Digits, held_out=24), "24 of 24 images"),
        (lambda: prepared(Digits, held_out=0).score(), "nothing is held out"),
    ],
)
def test_what_can_not_be_computed_is_refused(wrong, says):
    with pytest.raises(ValueError, match=says):
        wrong()
