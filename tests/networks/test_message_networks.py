"""Networks as graphs of messages against the same networks as a whole."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn

from parser.batching.messages.checked import check_all
from parser.batching.messages.threads import run
from parser.batching.messages.transforms import Updates
from parser.networks.digit_classifier import DigitClassifier
from parser.networks.list_reducer import ListReducer
from parser.plugins.support.messages import average

NO_UPDATES = Updates(partial(torch.optim.SGD, lr=0.0), after=1 << 60)


def digits(tiles: int) -> tuple[nn.Module, list]:
    torch.manual_seed(1)
    batches = [(torch.rand(size, 6), torch.randint(3, (size,))) for size in (1, 4, 2)]
    return DigitClassifier([6, 8, 8, 3], tiles), batches


def lists(replicas: int) -> tuple[nn.Module, list]:
    torch.manual_seed(1)
    shapes = [(2, 5), (3, 1), (1, 4), (2, 2), (4, 3)]
    batches = [(torch.randint(7, shape), torch.randint(4, shape[:1])) for shape in shapes]
    return ListReducer(7, 4, hidden_size=6, replicas=replicas), batches


MODELS = [partial(digits, 1), partial(digits, 2), partial(lists, 1)]


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("made", MODELS)
def test_losses_and_gradients_are_those_of_the_whole(made, workers):
    network, batches = made()
    expected = [network.losses(batch) for batch in batches]
    sum(each.loss for each in expected).backward()
    gradients = [weight.grad.clone() for weight in network.parameters()]
    network.zero_grad()
    graph = network.graph(NO_UPDATES, workers)
    assert graph.workers <= workers
    check_all(graph)
    reports = []
    instances = [network.instance(number, batch, training=True) for number, batch in enumerate(batches)]
    run(graph, instances, 3, reports.append)
    assert graph.held() == {}
    by_number = sorted(reports, key=lambda report: report.state.instance)
    torch.testing.assert_close([each.loss for each in by_number], [each.loss.item() for each in expected])
    assert [each.right for each in by_number] == [each.right for each in expected]
    torch.testing.assert_close([weight.grad for weight in network.parameters()], gradients)


@pytest.mark.parametrize("made", [*MODELS, partial(lists, 2)])
def test_inference_leaves_nothing_behind(made):
    network, batches = made()
    graph = network.graph(NO_UPDATES, 2)
    check_all(graph)
    reports = []
    run(
        graph,
        [network.instance(n, batch, training=False) for n, batch in enumerate(batches)],
        3,
        reports.append,
    )
    assert sum(report.examples for report in reports) == sum(len(labels) for _, labels in batches)
    assert graph.held() == {}
    assert all(weight.grad is None for weight in network.parameters())


def test_replicas_share_the_instances_and_are_averaged():
    network, batches = lists(replicas=2)
    alone, _ = lists(replicas=1)
    sum(alone.losses(batch).loss for batch in batches).backward()
    graph = network.graph(NO_UPDATES, 2)
    run(
        graph,
        [network.instance(n, batch, training=True) for n, batch in enumerate(batches)],
        2,
        lambda _: None,
    )
    for first, second, whole in zip(
        *(cell.parameters() for cell in (*network.cells, *alone.cells)), strict=True
    ):
        assert first.grad.any()
        assert second.grad.any()
        torch.testing.assert_close(first.grad + second.grad, whole.grad)
    expected = [
        (first + second) / 2
        for first, second in zip(*(cell.parameters() for cell in network.cells), strict=True)
    ]
    average(network.cells)
    for cell in network.cells:
        torch.testing.assert_close(list(cell.parameters()), expected)


def test_tiles_must_be_alike():
    with pytest.raises(ValueError, match="8 outputs can not be cut into 3 tiles"):
        DigitClassifier([6, 8, 3], tiles=3)
