import json
from contextlib import nullcontext

import h5py
import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from parser.batching.operations.operation_graph import GRAPH_METHODS
from parser.benchmarks.conformance import faults_of
from parser.benchmarks.plugin import Setup
from parser.benchmarks.programs.examples import (
    MadeQuestions,
    ProgramExecutorSettings,
    load_questions,
    prepare_program,
)
from parser.benchmarks.programs.images import RandomImages
from parser.benchmarks.programs.program_executor import LABELLINGS
from parser.benchmarks.programs.program_executor_plugin import ProgramExecutorPlugin
from parser.benchmarks.programs.questions import MODULES, SCENE, compose


class SmallSettings(ProgramExecutorSettings):
    made: MadeQuestions = MadeQuestions(questions=8, scenes=2)
    feature_channels: int = 3
    side: int = 4
    channels: int = 2
    projected: int = 3
    hidden: int = 4


class SmallExecutor(ProgramExecutorPlugin):
    Settings = SmallSettings


def test_the_plugin_does_all_that_it_must():
    assert faults_of(SmallExecutor) == []


def test_only_some_of_the_questions():
    plugin = SmallExecutor()
    plugin.prepare(setup_of(plugin, "train", examples=3))
    assert sum(map(len, plugin.batches())) == 3


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
    plugin, counter = SmallExecutor(), FlopCounterMode(display=False)
    plugin.prepare(setup_of(plugin, "train" if training else "infer"))
    plugin._images = RandomImages(3, 4, seed=1)  # to paint takes a product, too
    (batch,) = plugin.batches()
    with counter:
        plugin.run(batch)
    assert plugin.work(batch).operations == counter.get_total_flops()


def setup_of(plugin, mode="train", method="levels", **settings):
    return Setup(
        plugin.Settings(**settings), method, mode, 64, torch.device("cpu"), 1, lambda _: nullcontext()
    )


def test_calls_are_counted_beside_their_bounds():
    plugin = SmallExecutor()
    counts = {}
    for method in (*GRAPH_METHODS, *LABELLINGS):
        plugin.prepare(setup_of(plugin, method=method))
        counts[method] = plugin.work(plugin.batches()[0]).counts
    calls = {method: found["calls of modules"] for method, found in counts.items()}
    (bounds,) = {(found["modules x depth"], found["modules x length"]) for found in counts.values()}
    assert calls["none"] == sum(len(example.calls.module) for example in plugin.examples)
    assert calls["agenda"] == counts["levels"]["calls by agenda"] <= calls["levels"] <= bounds[0]
    assert calls["columns"] <= bounds[1]
    assert calls["levels"] < calls["none"] > calls["columns"]


def questions_file(folder, image):
    """One question about that image."""
    question = {
        "image_index": image,
        "answer": "yes",
        "program": [
            {"function": "scene", "inputs": [], "value_inputs": []},
            {"function": "exist", "inputs": [0], "value_inputs": []},
        ],
    }
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
    with pytest.raises(ValueError, match=r"features of \(2?,? ?3, 4, 4\), but .* 5 x 4 x 4"):
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
    plugin = SmallExecutor()
    assert plugin.skip(setup_of(plugin, questions=str(tmp_path / "none.json"))).startswith("no file")
