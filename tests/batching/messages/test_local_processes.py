"""Processes that the first one starts, one for each worker."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from message_graphs import examples, instances, layers_in_a_row, two_layers

from parser.batching.messages import threads
from parser.batching.messages.local_processes import LocalProcesses
from parser.batching.messages.replicas import staleness, update_all
from parser.batching.messages.worker import LostError


@pytest.mark.extended
def test_they_do_what_threads_do_and_end_with_an_error_when_one_is_lost():
    """One test for all of it, because a process takes long to start."""
    layers, plain_layers = two_layers(), two_layers()
    graph, plain = (layers_in_a_row(*own, update_after=5) for own in (layers, plain_layers))
    losses: list[float] = []
    expected: list[float] = []
    threads.run(plain, instances(examples(12)), 1, lambda report: expected.append(report.loss))
    update_all(plain)
    processes = LocalProcesses(graph, partial(layers_in_a_row, *layers, update_after=5))
    processes.run(graph, instances(examples(12)), 1, lambda report: losses.append(report.loss))
    processes.update()
    processes.share()
    assert losses == pytest.approx(expected)
    for layer, plain_layer in zip(layers, plain_layers, strict=True):
        torch.testing.assert_close(list(layer.parameters()), list(plain_layer.parameters()))
    assert processes.staleness() == staleness(plain)
    processes._others[0].kill()
    with pytest.raises(LostError):
        processes.run(graph, instances(examples(12)), 1, lambda _: None)
    processes.close()
    assert processes._others[0].returncode is not None


def test_the_controller_must_be_in_the_process_that_starts_the_others():
    graph = layers_in_a_row(*two_layers())
    graph.worker["controller"] = 1
    with pytest.raises(ValueError, match="must be on the first worker, not on 1"):
        LocalProcesses(graph, lambda: graph)
