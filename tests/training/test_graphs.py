"""Training by CUDA graphs, on the simulated device: as without, and only where it can be."""

import os
import signal

import pytest
import torch
from safetensors.torch import load_file
from simulated_cuda.device import SimulatedCuda
from stopped_runs import LONG, left_behind

from parser.config_file import read_config
from parser.optimization.training_step import TrainingStep
from parser.training import graphs
from parser.training.interruption import StoppedError
from parser.training.loop import train

GRAPHS = "training.cuda_graphs=true"
WITHOUT_CHANCE = ["training.epochs=4", "training.unknown_probability=0", "training.average=0.9"]
CPU = torch.device("cpu")


def result(config, run):
    """Losses and weights, and how often a graph was replayed."""
    with SimulatedCuda() as cuda:
        train(config, run, cuda.name)
    losses = [row["loss"] for row in left_behind(run)[0]]
    return losses, load_file(run / "model" / "weights.safetensors"), cuda.counts.operators["graph"]


@pytest.mark.parametrize(("features", "shapes"), [("true", None), ("false", 1)])
def test_a_run_learns_what_it_learns_without(config_file, tmp_path, monkeypatch, capsys, features, shapes):
    """shapes: of the common ones, those that the run has; batches that fit none of them have no graph."""
    common = graphs.common_shapes
    monkeypatch.setattr(graphs, "common_shapes", lambda found: common(found)[:shapes])
    changes = [*WITHOUT_CHANCE, f"parser.network.word_features={features}"]
    losses, weights, replays = result(read_config(config_file, changes), tmp_path / "without")
    assert not replays
    *by_graphs, replays = result(read_config(config_file, [*changes, GRAPHS]), tmp_path / "with")
    assert replays > 5
    assert by_graphs[0] == pytest.approx(losses, rel=1e-4)
    assert by_graphs[1].keys() == weights.keys()
    for name, weight in weights.items():
        torch.testing.assert_close(by_graphs[1][name], weight, rtol=1e-3, atol=1e-4)
    assert "CUDA graph" not in capsys.readouterr().err


def test_a_run_that_is_stopped_goes_on(config_file, tmp_path, monkeypatch):
    config = read_config(config_file, [*LONG, GRAPHS, "training.word_dropout=0.5", "training.epochs=4"])
    update, updates, stops = TrainingStep.update, 0, set()

    def update_and_signal(step):
        nonlocal updates
        updates += 1
        if updates in stops:
            os.kill(os.getpid(), signal.SIGTERM)
        return update(step)

    monkeypatch.setattr(TrainingStep, "update", update_and_signal)
    with SimulatedCuda() as cuda:
        train(config, tmp_path / "whole", cuda.name)
    assert cuda.counts.operators["graph"] > 5
    updates, stops = 0, {3, 11}
    for _ in stops:
        with SimulatedCuda() as cuda, pytest.raises(StoppedError):
            train(config, tmp_path / "stopped", cuda.name, resume=True)
    with SimulatedCuda() as cuda:
        train(config, tmp_path / "stopped", cuda.name, resume=True)
    assert left_behind(tmp_path / "stopped") == left_behind(tmp_path / "whole")


def test_epochs_that_explore_have_no_graphs(config_file, tmp_path):
    changes = [GRAPHS, "training.exploration={from_epoch: 2, probability: 1.0}", "training.epochs=3"]
    losses, _, replays = result(read_config(config_file, changes), tmp_path / "run")
    assert len(losses) == 3
    batches = 5  # of 16 sentences, four at a time, the first batch possibly smaller
    assert replays < batches


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("parser.network.composition=true", "not for a network with composition; going on without"),
        ("training.epochs=1", "only a GPU has them; going on without"),
    ],
)
def test_where_there_can_be_none(config_file, tmp_path, capsys, change, message):
    config = read_config(config_file, [GRAPHS, "training.epochs=1", change])
    if "GPU" in message:
        train(config, tmp_path / "run", CPU)
    else:
        assert not result(config, tmp_path / "run")[2]
    assert message in capsys.readouterr().err
