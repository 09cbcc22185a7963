"""Programs of modules: every way of batching compared with a plain recursion, and in the speed harness."""

from __future__ import annotations

import json

import h5py
import numpy as np
import pytest
import torch
from chosen_device import DEVICE
from extended import examples
from hypothesis import given
from hypothesis import strategies as st
from plugin_setups import prepared, setup_of, with_settings
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from parser.batching.levels import depths
from parser.batching.operations.operation_graph import GRAPH_METHODS, Graph
from parser.batching.operations.static_computation import StaticComputation
from parser.speed.tasks.conformance import faults_of
from parser.speed.tasks.programs.examples import (
    MadeQuestions,
    ProgramExecutorSettings,
    RandomImages,
    load_questions,
    prepare_program,
)
from parser.speed.tasks.programs.network import (
    LABELLINGS,
    ExecutorSizes,
    ProgramCalls,
    ProgramExecutor,
    RecordedExecutor,
    in_device_format,
    number_calls,
    results_by_slices,
    rows,
)
from parser.speed.tasks.programs.program_executor_plugin import ProgramExecutorPlugin
from parser.speed.tasks.programs.questions import MODULES, SCENE, compose

SIZES = ExecutorSizes(features=3, side=4, channels=2, projected=3, hidden=5, unary=3, binary=2, answers=4)


def small_executor() -> ProgramExecutor:
    torch.manual_seed(3)
    return ProgramExecutor(SIZES).double().arranged_for(DEVICE)


def calls_of(nodes: list[tuple[int, int, int]], results: tuple[int, ...] = ()) -> ProgramCalls:
    """nodes: module, first value, second value or -1. results: by default that of the last call."""
    module, first, second = np.array(nodes, np.int64).reshape(-1, 3).T
    used, user = np.concatenate([first, second]) - 1, np.tile(np.arange(len(nodes)), 2)
    depth = depths(len(nodes), used[used >= 0], user[used >= 0])
    return ProgramCalls(module, first, second, depth, np.array(results or (len(nodes),), np.int64))


@st.composite
def programs(draw):
    """Programs in which calls are used any number of times, and the values of any calls are results."""
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
    """Results, and the gradients of a weighted sum of their elements for the images and the weights."""
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
@examples(15)
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
    # f(g(x)) next to h(f(g(x))): calls 0 and 1, calls 2, 3 and 4
    batch = [calls_of([(g, 0, -1), (f, 1, -1)]), calls_of([(g, 0, -1), (f, 1, -1), (h, 2, -1)])]
    assert groups(batch, "levels") == [[2], [3], [0], [1], [4]]
    assert groups(batch, "columns") == [[0, 2], [1, 3], [4]]
    # f(x) next to f(g(x)): levels pool calls that columns do not
    batch = [calls_of([(f, 0, -1)]), calls_of([(g, 0, -1), (f, 1, -1)])]
    assert groups(batch, "levels") == [[1], [0, 2]]
    assert groups(batch, "columns") == [[0], [1], [2]]


SmallExecutor = with_settings(
    ProgramExecutorPlugin,
    made=MadeQuestions(questions=8, scenes=2),
    feature_channels=3,
    side=4,
    channels=2,
    projected=3,
    hidden=4,
)
SmallSettings = SmallExecutor.Settings


@pytest.mark.extended
def test_the_plugin_does_all_that_it_must():
    assert faults_of(SmallExecutor) == []


def test_only_some_of_the_questions():
    assert sum(map(len, prepared(SmallExecutor, "levels", examples=3).batches())) == 3


def test_a_scene_is_the_image_and_no_call():
    things = compose("filter_color[red]", compose(SCENE))
    whole = compose("union", things, compose("relate[left]", compose("unique", things)))
    calls = prepare_program(whole, asked=(len(whole) - 1, 0))
    names = [MODULES[module] for module in calls.module]
    assert names == ["filter_color[red]", "filter_color[red]", "unique", "relate[left]", "union"]
    assert calls.first.tolist() == [0, 0, 2, 3, 1]
    assert calls.second.tolist() == [-1, -1, -1, -1, 4]
    assert calls.depth.tolist() == [1, 3, 2, 1, 0]
    assert calls.results.tolist() == [5, 0]


@pytest.mark.parametrize("training", [False, True])
def test_operations_are_those_that_torch_counts(training):
    plugin = prepared(SmallExecutor, "levels", "train" if training else "infer", size=64)
    plugin._images = RandomImages(3, 4, seed=1)  # painting needs a product, too
    (batch,) = plugin.batches()
    with FlopCounterMode(display=False) as counter:
        plugin.run(batch)
    assert plugin.work(batch).operations == counter.get_total_flops()


@pytest.mark.extended
def test_calls_are_counted_beside_their_bounds():
    counts = {}
    for method in (*GRAPH_METHODS, *LABELLINGS):
        plugin = prepared(SmallExecutor, method, size=64)
        counts[method] = plugin.work(plugin.batches()[0]).counts
    calls = {method: found["calls of modules"] for method, found in counts.items()}
    (bounds,) = {(found["modules x depth"], found["modules x length"]) for found in counts.values()}
    assert calls["none"] == sum(len(example.calls.module) for example in plugin.examples)
    assert calls["agenda"] == counts["levels"]["calls by agenda"] <= calls["levels"] <= bounds[0]
    assert calls["columns"] <= bounds[1]
    assert calls["levels"] < calls["none"] > calls["columns"]


def questions_file(folder, image):
    """One question about that image."""
    program = [{"function": "scene", "inputs": []}, {"function": "exist", "inputs": [0]}]
    question = {"image_index": image, "answer": "yes", "program": program}
    path = folder / "questions.json"
    path.write_text(json.dumps({"questions": [question]}))
    return str(path)


def test_features_are_read_where_they_are_given(tmp_path):
    path = tmp_path / "features.h5"
    features = np.random.default_rng(1).random((2, 3, 4, 4), np.float32)
    with h5py.File(path, "w") as file:
        file["features"] = features
    questions = questions_file(tmp_path, image=1)
    _, images = load_questions(SmallSettings(questions=questions, features=str(path)), seed=1)
    assert (images.of([1, 0, 1]).numpy() == features[[1, 0, 1]]).all()
    with pytest.raises(ValueError, match=r"3, 4, 4\), .* 5 x 4 x 4"):
        load_questions(SmallSettings(questions=questions, features=str(path), feature_channels=5), seed=1)
    with pytest.raises(ValueError, match="2 images, but questions are about 2"):
        load_questions(SmallSettings(questions=questions_file(tmp_path, image=2), features=str(path)), seed=1)


@pytest.mark.parametrize(
    "given", [{"features": "f"}, {"scenes": "s"}, {"questions": "q", "features": "f", "scenes": "s"}]
)
def test_images_come_from_one_place(given):
    with pytest.raises(ValueError, match=r"needs `questions`|give only one of them"):
        ProgramExecutorSettings(**given)


def test_questions_of_a_file_need_their_scenes(tmp_path):
    questions, scenes = questions_file(tmp_path, image=7), tmp_path / "scenes.json"
    scenes.write_text(json.dumps({"scenes": []}))
    _, images = load_questions(SmallSettings(questions=questions), seed=1)
    assert images.of([7, 7]).shape == (2, 3, 4, 4)  # noise
    with pytest.raises(ValueError, match="no scene of image 7, which questions are about"):
        load_questions(SmallSettings(questions=questions, scenes=str(scenes)), seed=1)
    absent = setup_of(SmallExecutor, questions=str(tmp_path / "none.json"))
    assert SmallExecutor().skip(absent).startswith("no file")
