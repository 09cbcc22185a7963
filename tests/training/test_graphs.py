"""CUDA graphs: gradients and runs are those without graphs, also where some can not be used."""

import copy

import pytest
import torch
from plain_parser import make_inventory, projective_trees
from safetensors.torch import load_file
from simulated_cuda.device import SimulatedCuda
from simulated_cuda.graphs import Graph
from small_parsers import examples, network
from stopped_runs import left_behind

from parser.networks.replay.examples import BatchSource
from parser.networks.replay.shapes import common_shapes
from parser.networks.settings import NetworkSettings
from parser.networks.stack_parser import StackParser
from parser.training import graphed_gradients
from parser.training.config import read_config
from parser.training.graphed_gradients import GraphedGradients, PaddedBatch, why_no_common_shapes
from parser.training.optimizer import OptimizerSettings, make_optimizer
from parser.training.run import train
from parser.training.training_step import TrainingStep

GRAPHS = "training.cuda_graphs=true"
WITHOUT_CHANCE = ["training.epochs=2", "training.unknown_probability=0", "training.average=0.9"]
CPU = torch.device("cpu")


def losses_of(run):
    return [row["loss"] for row in left_behind(run)[0]]


def result(config, run):
    """The losses, and how often a graph was replayed."""
    with SimulatedCuda() as cuda:
        train(config, run, cuda.name)
    return losses_of(run), cuda.counts.operators["graph"]


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
    losses, replays = result(read_config(mixed, changes), tmp_path / "without")
    assert not replays
    by_graphs, replays = result(read_config(mixed, [*changes, GRAPHS]), tmp_path / "with")
    assert replays > 1
    assert len(set(found)) > 2
    if left.step:
        assert None in found
    assert by_graphs == pytest.approx(losses, rel=1e-4)
    ours, plain = (load_file(tmp_path / run / "model/weights.safetensors") for run in ("with", "without"))
    torch.testing.assert_close(ours, plain, rtol=1e-3, atol=1e-4)
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
    losses, _ = result(read_config(mixed, changes), tmp_path / "without")
    without = len(failures)
    by_graphs, _ = result(read_config(mixed, [*changes, GRAPHS]), tmp_path / "with")
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
    assert losses_of(tmp_path / "with") == pytest.approx(losses_of(tmp_path / "without"), rel=1e-4)
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
    # Others have no graph.
    monkeypatch.setattr(graphed_gradients, "common_shapes", lambda *of: common(*of)[::2])
    with SimulatedCuda() as cuda:
        train(read_config(mixed, ["training.epochs=3", GRAPHS]), tmp_path / "run", cuda.name)
    assert len(losses_of(tmp_path / "run")) == 3
    assert cuda.counts.operators["graph"]


@pytest.mark.extended
def test_epochs_that_explore_have_no_graphs(config_file, tmp_path):
    changes = [GRAPHS, "training.exploration={from_epoch: 2, probability: 1.0}", "training.epochs=2"]
    losses, replays = result(read_config(config_file, changes), tmp_path / "run")
    assert len(losses) == 2
    assert replays < 5  # batches: of 16 sentences, four at a time, the first batch possibly smaller


@pytest.mark.extended
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("parser.network.composition=true", "not for a network with composition"),
        ("training.exploration={from_epoch: 1}", "epochs that explore have none"),
    ],
)
def test_where_there_can_be_none(config_file, tmp_path, capsys, change, message):
    config = read_config(config_file, [GRAPHS, "training.epochs=1", change])
    assert result(config, tmp_path / "run")[1] == 0
    assert f"training.cuda_graphs: {message}; training without CUDA graphs" in capsys.readouterr().err


def test_a_run_is_resumed_without_a_gpu(config_file, tmp_path, capsys):
    config = read_config(config_file, [GRAPHS, "training.epochs=1"])
    train(config, tmp_path / "run", CPU)
    assert "only a GPU has them; training without CUDA graphs" in capsys.readouterr().err
    without = read_config(config_file, ["training.epochs=1"])
    train(without, tmp_path / "run", CPU, resume=True)
    with pytest.raises(ValueError, match="was started with another config"):
        train(read_config(config_file, ["training.seed=2"]), tmp_path / "run", CPU, resume=True)


SYSTEM = "arc-hybrid"
TREES = [tree for length in range(1, 6) for tree in projective_trees(length)[:5]]
ROUNDS = 3
"""The first batch of a shape is computed plainly, the second captured, the third and later ones replayed."""


def training_step(parser, inventory):
    return TrainingStep(parser, inventory, make_optimizer(parser, OptimizerSettings()), max_grad_norm=5.0)


def batches_and_shapes(prepared):
    """Batches of similar length, as row numbers, their shapes, and the common shape of each batch."""
    by_length = prepared.tokens.lengths.argsort()
    rows = [part for start in range(ROUNDS) for part in by_length[start:].split(4)]
    sizes = list(map(prepared.shape, rows))
    shapes = common_shapes(sizes)
    assert len(rows) > ROUNDS * len(shapes) > ROUNDS
    return [
        (part, size, next(each for each in shapes if each.holds(size)))
        for part, size in zip(rows, sizes, strict=True)
    ]


@pytest.fixture
def gpu(device):
    if device.type != "cuda":
        pytest.skip("CUDA graphs need a GPU")
    return device


@pytest.mark.parametrize(("system", "word_features"), [("arc-hybrid", False), ("arc-eager", True)])
def test_graphs_train_as_plain_steps_do(system, word_features, gpu, capsys):
    inventory = make_inventory(system).to(gpu)
    prepared = examples(make_inventory(system), TREES)
    source = BatchSource(prepared, gpu)
    parser = network(inventory, layers=2, device=gpu, word_features=word_features)
    copied = copy.deepcopy(parser)
    for layer in (copied.stack, copied.buffer, copied.history):
        layer.flatten_parameters()  # a copy's weights do not lie in one block, which cuDNN needs
    plain, graphed = (training_step(each, inventory) for each in (copied, parser))
    gradients = GraphedGradients(graphed, source)
    found = []
    for rows, *shapes in batches_and_shapes(prepared):
        by_graph = gradients.gradients(PaddedBatch.of(source, rows, *shapes))
        results = plain.gradients([prepared.batch(rows).to(gpu)]), by_graph
        found.append(
            [
                [float(loss), count, float(step.update())]
                for step, (loss, count) in zip((plain, graphed), results, strict=True)
            ]
        )
    by_plain, by_graph = torch.tensor(found).unbind(1)
    torch.testing.assert_close(by_graph, by_plain, rtol=1e-6, atol=1e-6)
    for weight, expected in zip(graphed.network.parameters(), plain.network.parameters(), strict=True):
        torch.testing.assert_close(weight, expected, rtol=1e-7, atol=1e-7)
    assert len(gradients.cuda_graphs._by_work) == len({common for *_, common in batches_and_shapes(prepared)})


@pytest.fixture
def source(gpu):
    return BatchSource(examples(make_inventory(SYSTEM), TREES), gpu)


def test_each_replay_draws_other_random_numbers(gpu, source):
    inventory = make_inventory(SYSTEM).to(gpu)
    batch = PaddedBatch.of(source, *batches_and_shapes(source.examples)[0])
    gradients = GraphedGradients(
        training_step(network(inventory, dropout=0.5, device=gpu), inventory), source
    )
    losses = [float(gradients.gradients(batch)[0]) for _ in range(ROUNDS + 3)]
    assert len(set(losses)) == len(losses)


def test_tokens_are_changed_anew_in_each_replay(gpu, source):
    inventory, seen = make_inventory(SYSTEM).to(gpu), torch.zeros((), dtype=torch.long, device=gpu)
    batch = PaddedBatch.of(source, *batches_and_shapes(source.examples)[0])

    def count(tokens):
        seen.add_(tokens.words)
        return tokens

    step = training_step(network(inventory, device=gpu), inventory)
    gradients = GraphedGradients(step, source, change_tokens=count)
    for _ in range(ROUNDS + 1):
        gradients.gradients(batch)
    assert seen.item() == (ROUNDS + 1) * batch.shape.words


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, None),
        ({"word_features": True, "tag_sizes": {"upos": 3, "xpos": 2}, "layers": 2}, None),
        ({"composition": True}, "composition"),
        ({"tags": {"predict": ("xpos",)}}, None),
        ({"tag_sizes": {"feats": 3}}, "characters or features"),
        ({"sentence_encoder": {}, "characters": {}}, "a sentence encoder and characters or features"),
    ],
)
def test_networks_whose_batches_have_no_common_shapes(changes, message):
    found = why_no_common_shapes(NetworkSettings(**changes))
    assert found == (message and f"not for a network with {message}")
