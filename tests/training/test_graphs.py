"""Training with CUDA graphs on the simulated device: results as without graphs, if they can be used."""

import os
import signal

import pytest
import torch
from safetensors.torch import load_file
from simulated_cuda.device import SimulatedCuda
from simulated_cuda.graphs import Graph
from stopped_runs import LONG, left_behind

from parser.networks.stack_parser import StackParser
from parser.system.interruption import StoppedError
from parser.training import graphed_gradients
from parser.training.config import read_config
from parser.training.run import train
from parser.training.training_step import TrainingStep

GRAPHS = "training.cuda_graphs=true"
WITHOUT_CHANCE = ["training.epochs=2", "training.unknown_probability=0", "training.average=0.9"]
CPU = torch.device("cpu")


def result(config, run):
    """The losses and weights, and how often a graph was replayed."""
    with SimulatedCuda() as cuda:
        train(config, run, cuda.name)
    losses = [row["loss"] for row in left_behind(run)[0]]
    return losses, load_file(run / "model" / "weights.safetensors"), cuda.counts.operators["graph"]


@pytest.fixture
def mixed(config_file, tmp_path):
    """A config whose sentences have one to eight words."""
    sentences = [
        "".join(f"{n}\tw{n * number % 7}\tw\tX\tX\t_\t{n - 1}\tdep\t_\t_\n" for n in range(1, 2 + number % 8))
        for number in range(24)
    ]
    (tmp_path / "tiny.conllu").write_text("\n".join([*sentences, ""]))
    return config_file


@pytest.mark.extended
@pytest.mark.parametrize(("features", "left"), [("true", slice(None)), ("false", slice(0, None, 2))])
def test_a_run_learns_what_it_learns_without(mixed, tmp_path, monkeypatch, capsys, features, left):
    """left: the common shapes that the run uses; batches that fit none of them have no graph."""
    found, common = [], graphed_gradients.common_shapes
    monkeypatch.setattr(graphed_gradients, "common_shapes", lambda *of: common(*of)[left])
    fitting = graphed_gradients.fitting
    monkeypatch.setattr(graphed_gradients, "fitting", lambda *of: found.append(fitting(*of)) or found[-1])
    changes = [*WITHOUT_CHANCE, f"parser.network.word_features={features}"]
    losses, weights, replays = result(read_config(mixed, changes), tmp_path / "without")
    assert not replays
    *by_graphs, replays = result(read_config(mixed, [*changes, GRAPHS]), tmp_path / "with")
    assert replays > 1
    assert len(set(found)) > 2
    if left.step:
        assert None in found
    assert by_graphs[0] == pytest.approx(losses, rel=1e-4)
    assert by_graphs[1].keys() == weights.keys()
    for name, weight in weights.items():
        torch.testing.assert_close(by_graphs[1][name], weight, rtol=1e-3, atol=1e-4)
    assert "CUDA graph" not in capsys.readouterr().err


@pytest.mark.extended
def test_padding_that_takes_too_much_memory_is_left_out(mixed, tmp_path, monkeypatch, capsys):
    replay, most, failures = StackParser.replay_words, 45, []

    def replay_or_fail(network, table, batch):
        if len(batch.transitions) > most:
            failures.append(batch)
            raise torch.OutOfMemoryError("CUDA out of memory")
        return replay(network, table, batch)

    monkeypatch.setattr(StackParser, "replay_words", replay_or_fail)
    changes = [*WITHOUT_CHANCE, "training.batch_size=3"]
    losses, *_ = result(read_config(mixed, changes), tmp_path / "without")
    without = len(failures)
    by_graphs, *_ = result(read_config(mixed, [*changes, GRAPHS]), tmp_path / "with")
    assert by_graphs == pytest.approx(losses, rel=1e-4)
    # The one shape that is too large was tried with and without the graphs of others.
    assert len(failures) == 2 * without + 2
    assert capsys.readouterr().err.count("computed without CUDA graphs") == 1


@pytest.mark.extended
def test_shapes_that_need_too_much_memory_have_no_graphs(mixed, tmp_path, monkeypatch, capsys):
    """Other shapes have graphs, also after all graphs were dropped."""
    config = read_config(mixed, [*WITHOUT_CHANCE, "training.epochs=3", GRAPHS])
    with SimulatedCuda() as cuda:
        train(config, tmp_path / "with", cuda.name)
        largest = max(pool.bytes for pool in cuda.pools)
    take_memory, refused = Graph.take_memory, []

    def take_or_note(graph, pool):
        try:
            take_memory(graph, pool)
        except torch.OutOfMemoryError:
            refused.append(pool)
            raise

    monkeypatch.setattr(Graph, "take_memory", take_or_note)
    with SimulatedCuda() as cuda:
        cuda.memory_for_graphs = largest / 2
        train(config, tmp_path / "without", cuda.name)
    assert 1 <= len(refused) <= 3
    assert cuda.counts.operators["graph"] > 1
    losses = [[row["loss"] for row in left_behind(tmp_path / name)[0]] for name in ("with", "without")]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    assert capsys.readouterr().err.count("computed without CUDA graphs") == 1


@pytest.mark.extended
def test_graphs_are_freed_for_a_batch_that_needs_their_memory(mixed, tmp_path, monkeypatch):
    """Otherwise a sentence for which there is memory would be refused."""
    replay = StackParser.replay_words

    def replay_or_fail(network, table, batch):
        if network.training and any(pool.graphs for pool in cuda.pools) and not cuda.captured:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return replay(network, table, batch)

    monkeypatch.setattr(StackParser, "replay_words", replay_or_fail)
    common = graphed_gradients.common_shapes
    monkeypatch.setattr(
        graphed_gradients, "common_shapes", lambda *of: common(*of)[::2]
    )  # others have no graph
    with SimulatedCuda() as cuda:
        train(read_config(mixed, ["training.epochs=3", GRAPHS]), tmp_path / "run", cuda.name)
    assert len(left_behind(tmp_path / "run")[0]) == 3
    assert cuda.counts.operators["graph"]


@pytest.mark.extended
def test_a_run_that_is_stopped_goes_on(config_file, tmp_path, monkeypatch):
    config = read_config(config_file, [*LONG, GRAPHS, "training.word_dropout=0.5", "training.epochs=3"])
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
    assert cuda.counts.operators["graph"] > 3
    updates, stops = 0, {3, 8}
    for number in range(len(stops)):
        with SimulatedCuda() as cuda, pytest.raises(StoppedError):
            train(config, tmp_path / "stopped", cuda.name, resume=number > 0)
    with SimulatedCuda() as cuda:
        train(config, tmp_path / "stopped", cuda.name, resume=True)
    assert left_behind(tmp_path / "stopped") == left_behind(tmp_path / "whole")


@pytest.mark.extended
def test_epochs_that_explore_have_no_graphs(config_file, tmp_path):
    changes = [GRAPHS, "training.exploration={from_epoch: 2, probability: 1.0}", "training.epochs=2"]
    losses, _, replays = result(read_config(config_file, changes), tmp_path / "run")
    assert len(losses) == 2
    batches = 5  # of 16 sentences, four at a time, the first batch possibly smaller
    assert replays < batches


@pytest.mark.extended
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["parser.network.composition=true"], "not for a network with composition"),
        (["training.exploration={from_epoch: 1}"], "epochs that explore have none"),
    ],
)
def test_where_there_can_be_none(config_file, tmp_path, capsys, changes, message):
    config = read_config(config_file, [GRAPHS, "training.epochs=1", *changes])
    assert not result(config, tmp_path / "run")[2]
    assert f"training.cuda_graphs: {message}; training without CUDA graphs" in capsys.readouterr().err


def test_a_run_is_resumed_without_a_gpu(config_file, tmp_path, capsys):
    config = read_config(config_file, [GRAPHS, "training.epochs=1"])
    train(config, tmp_path / "run", CPU)
    assert "only a GPU has them; training without CUDA graphs" in capsys.readouterr().err
    without = read_config(config_file, ["training.epochs=1"])
    train(without, tmp_path / "run", CPU, resume=True)
    with pytest.raises(ValueError, match="was started with another config"):
        train(read_config(config_file, ["training.seed=2"]), tmp_path / "run", CPU, resume=True)
