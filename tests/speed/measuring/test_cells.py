from pathlib import Path

import pytest
from extended import first_of
from speed_rows import cell

from parser.commands.speed import read_config
from parser.speed.measuring import run
from parser.speed.measuring.cells import (
    Experiment,
    SpeedConfig,
    cells_of,
    interleaved_groups,
    passes,
    read_filter,
)
from parser.speed.measuring.learning import learning_cells
from parser.speed.tasks.discovery import find
from parser.system.settings import Settings


class Plugin:
    name = "some"
    methods = {"train": ("none", "step", "replay"), "infer": ("none", "step")}  # noqa: RUF012

    class Settings(Settings):
        words: int = 3


def cells(**settings):
    config = SpeedConfig(experiments={"first": Experiment(plugin="some", **settings)}, devices=["cpu"])
    return cells_of(config, lambda name: Plugin)


def described(cells):
    return [(cell.mode, cell.method, cell.batch_size) for cell in cells]


def test_methods_of_each_mode_by_batch_size():
    methods = {"train": ("none", "step", "replay"), "infer": ("none", "step")}
    assert described(cells(modes=["train", "infer"], batch_sizes=[1, 8])) == [
        (mode, method, size) for mode in methods for size in (1, 8) for method in methods[mode]
    ]
    by_method = described(cells(batch_sizes={"none": [1], "replay": [64, 1]}))
    assert by_method == [("train", "none", 1), ("train", "replay", 1), ("train", "replay", 64)]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"methods": ["leap"]}, "experiments.first.methods: some has no method 'leap' here; known are none"),
        ({"settings": {"wrods": 3}}, "experiments.first.settings.wrods: unknown key"),
        ({"settings": {"words": "many"}}, "experiments.first.settings.words: .*valid integer"),
    ],
)
def test_what_a_plugin_does_not_have_is_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        cells(**settings)


def test_a_mode_that_the_plugin_does_not_have_is_refused():
    class TrainOnly(Plugin):
        methods = {"train": ("none",)}  # noqa: RUF012

    config = SpeedConfig(experiments={"e": Experiment(plugin="some", modes=["infer"])}, devices=["cpu"])
    with pytest.raises(ValueError, match=r"experiments.e.modes: some cannot be measured in mode 'infer'"):
        cells_of(config, lambda name: TrainOnly)


def test_identity_depends_on_all_that_was_asked_for():
    identities = [
        cell.identity
        for settings in ({}, {"settings": {"words": 4}}, {"modes": ["infer"]})
        for cell in cells(batch_sizes=[1, 2], methods=["none", "step"], **settings)
    ]
    assert len(set(identities)) == 12


def test_interleaved_groups_keep_what_is_compared_together():
    all_cells = cells(modes=["train", "infer"], batch_sizes=[1, 8])
    assert [len(group) for group in interleaved_groups(all_cells, together=16)] == [6, 4]
    assert [len(group) for group in interleaved_groups(all_cells, together=5)] == [3, 3, 4]
    assert [len(group) for group in interleaved_groups(all_cells, together=1)] == [
        3,
        3,
        2,
        2,
    ]  # one size is not split
    assert [cell for group in interleaved_groups(all_cells, together=5) for cell in group] == all_cells


def test_filters():
    replay = cell(method="replay", batch_size=64)
    assert passes(replay, read_filter(""))
    assert passes(replay, read_filter("method=step|replay,batch_size=64"))
    assert not passes(replay, read_filter("method=replay,batch_size=6"))


@pytest.mark.parametrize("text", ["method", "method=", "colour=red", "=3"])
def test_filters_that_say_nothing(text):
    with pytest.raises(ValueError, match=r"write KEY=VALUE .*batch_size"):
        read_filter(text)


CONFIGS = sorted(Path("configs/speed").glob("*.yaml"))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_the_configs_that_come_with_the_project_are_valid(path):
    config = read_config(path).model_copy(update={"devices": ["cpu"]})
    assert cells_of(config, find) or config.external
    learning_cells(config)


@pytest.mark.parametrize("path", first_of(CONFIGS), ids=lambda path: path.stem)
def test_the_config_that_a_run_keeps_has_the_same_cells(path, tmp_path):
    config = read_config(path).model_copy(update={"devices": ["cpu"]})
    run.measure_cells(config, tmp_path, "", minutes=0)
    kept = run.read_run_config(tmp_path)
    assert cells_of(kept, find) == cells_of(config, find)
    assert learning_cells(kept) == learning_cells(config)


def test_precisions_take_turns_with_each_other():
    config = SpeedConfig(
        experiments={"first": Experiment(plugin="some", methods=["step", "replay"], batch_sizes=[8, 64])},
        devices=["cpu"],
        precisions=["float32", "bfloat16", "float32"],
    )
    found = cells_of(config, lambda name: Plugin)
    assert [(cell.batch_size, cell.method, cell.precision) for cell in found] == [
        (size, method, precision)
        for size in (8, 64)
        for method in ("step", "replay")
        for precision in ("float32", "bfloat16")
    ]
    assert [len(group) for group in interleaved_groups(found, together=4)] == [4, 4]
    assert [cell.name for cell in found[:2]] == [
        "first: step at 8, train, cpu",
        "first: step at 8, train, cpu, bfloat16",
    ]


def test_every_seed_of_learning_is_a_cell():
    learning = {"digits": {"plugin": "mnist_mlp", "methods": ["none"], "target": 1, "seeds": 3}}
    experiments = {"digits": {"plugin": "mnist_mlp", "methods": ["none"]}}
    config = SpeedConfig.model_validate({"experiments": experiments, "learning": learning, "seed": 5})
    assert [each.seed for each in learning_cells(config)] == [5, 6, 7]
