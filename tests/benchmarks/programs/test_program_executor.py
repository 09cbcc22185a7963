"""Every way of batching programs of modules against a plain recursion that torch differentiates."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from chosen_device import DEVICE
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from parser.batching.levels import depths
from parser.batching.operations.computation import StaticComputation
from parser.batching.operations.operation_graph import GRAPH_METHODS, Graph
from parser.benchmarks.programs.image_blocks import in_device_format, rows
from parser.benchmarks.programs.program_executor import (
    LABELLINGS,
    ExecutorSizes,
    ProgramCalls,
    ProgramExecutor,
    RecordedExecutor,
    number_calls,
    results_by_slices,
)

SIZES = ExecutorSizes(features=3, side=4, channels=2, projected=3, hidden=5, unary=3, binary=2, answers=4)


def small_executor() -> ProgramExecutor:
    torch.manual_seed(3)
    return ProgramExecutor(SIZES).double().arranged_for(DEVICE)


def calls_of(nodes: list[tuple[int, int, int]], results: tuple[int, ...] = ()) -> ProgramCalls:
    """nodes: module, first value, second value or -1; results: none for the last call's."""
    module, first, second = np.array(nodes, np.int64).reshape(-1, 3).T
    used, user = np.concatenate([first, second]) - 1, np.tile(np.arange(len(nodes)), 2)
    depth = depths(len(nodes), used[used >= 0], user[used >= 0])
    return ProgramCalls(module, first, second, depth, np.array(results or (len(nodes),), np.int64))


@st.composite
def programs(draw):
    """Some calls may be used several times, and some never; any of them may be asked for, and several."""
    nodes = []
    for number in range(draw(st.integers(0, 7))):
        module = draw(st.integers(0, 4))
        second = draw(st.integers(0, number)) if module >= SIZES.unary else -1
        nodes.append((module, draw(st.integers(0, number)), second))
    values = st.integers(0, len(nodes))
    return calls_of(nodes, tuple(draw(st.lists(values, min_size=1, max_size=4))))


def plain_results(executor: ProgramExecutor, images: Tensor, batch: list[ProgramCalls]) -> Tensor:
    """[results, width]"""

    def value(calls: ProgramCalls, image: Tensor, number: int) -> Tensor:
        if number == 0:
            return image
        call = number - 1
        given = [place for place in (calls.first[call], calls.second[call]) if place >= 0]
        return executor.blocks[calls.module[call]](*(value(calls, image, place) for place in given))

    return torch.cat(
        [
            rows(value(calls, image[None], result))
            for calls, image in zip(batch, images, strict=True)
            for result in calls.results
        ]
    )


def gradients(executor: ProgramExecutor) -> list[Tensor]:
    found = [torch.zeros_like(w) if w.grad is None else w.grad.clone() for w in executor.parameters()]
    executor.zero_grad()
    return found


def computed(executor, images, batch, method) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Results, and for a loss that weighs their elements, the gradients at the images and the weights."""
    features = rows(images).detach()
    recorded = RecordedExecutor(executor, lambda operation: operation)
    if method in LABELLINGS:
        computation = StaticComputation(images.device, images.dtype)
        computation.add_values(0, features)
        numbered = number_calls(batch, method)
        values = numbered.results.tolist()
        computation.run(computation.schedule(recorded.calls(numbered)))
    else:
        computation = Graph(method, images.device, images.dtype)
        values = recorded.results(computation, computation.add_values(features), batch)
        computation.forward()
    results = computation.rows(values, features.shape[1])
    (at_features,) = computation.backward(values, weights_of(results))
    return results, at_features, gradients(executor)


def weights_of(results: Tensor) -> Tensor:
    return torch.linspace(-1, 1, results.numel(), dtype=results.dtype, device=results.device).view_as(results)


@pytest.mark.parametrize("method", [*GRAPH_METHODS, *LABELLINGS, "sliced"])
@settings(max_examples=15)
@given(batch=st.lists(programs(), min_size=1, max_size=5))
def test_all_methods_equal_the_plain_recursion(method, batch):
    executor = small_executor()
    shape = (len(batch), SIZES.channels, SIZES.side, SIZES.side)
    images = in_device_format(torch.randn(shape, dtype=torch.double, device=DEVICE)).requires_grad_()
    expected = plain_results(executor, images, batch)
    (expected * weights_of(expected)).sum().backward()
    at_images, at_weights = rows(images.grad), gradients(executor)
    images.grad = None
    if method == "sliced":
        found = results_by_slices(executor, images, number_calls(batch, "levels"))
        (found * weights_of(found)).sum().backward()
        found = found, rows(images.grad), gradients(executor)
    else:
        found = computed(executor, images, batch, method)
    torch.testing.assert_close(found, (expected, at_images, at_weights))


def groups(batch: list[ProgramCalls], labelling: str) -> list[list[int]]:
    return [sorted(which.tolist()) for which in number_calls(batch, labelling).batches()]


def test_levels_pool_by_the_distance_from_the_root_and_columns_by_the_place():
    f, g, h = 0, 1, 2
    # f(g(x)) beside h(f(g(x))): calls 0 and 1, calls 2, 3 and 4
    batch = [calls_of([(g, 0, -1), (f, 1, -1)]), calls_of([(g, 0, -1), (f, 1, -1), (h, 2, -1)])]
    assert groups(batch, "levels") == [[2], [3], [0], [1], [4]]
    assert groups(batch, "columns") == [[0, 2], [1, 3], [4]]
    # f(x) beside f(g(x)), where levels pool what columns do not
    batch = [calls_of([(f, 0, -1)]), calls_of([(g, 0, -1), (f, 1, -1)])]
    assert groups(batch, "levels") == [[1], [0, 2]]
    assert groups(batch, "columns") == [[0], [1], [2]]
