"""Gradients by CUDA graphs equal those of the plain training step."""

import copy

import pytest
import torch
from plain_parser import make_inventory, projective_trees
from small_parsers import examples, network

from parser.networks.replay.examples import BatchSource
from parser.networks.replay.shapes import common_shapes
from parser.networks.settings import NetworkSettings
from parser.training.graphed_gradients import GraphedGradients, PaddedBatch, why_no_common_shapes
from parser.training.optimizer import OptimizerSettings, make_optimizer
from parser.training.training_step import TrainingStep

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


def cuda_only(device):
    if device.type != "cuda":
        pytest.skip("CUDA graphs need a GPU")


@pytest.mark.parametrize(("system", "word_features"), [("arc-hybrid", False), ("arc-eager", True)])
def test_graphs_train_as_plain_steps_do(system, word_features, device, capsys):
    cuda_only(device)
    inventory = make_inventory(system).to(device)
    prepared = examples(make_inventory(system), TREES)
    source = BatchSource(prepared, device)
    parser = network(inventory, layers=2, device=device, word_features=word_features)
    copied = copy.deepcopy(parser)
    for layer in (copied.stack, copied.buffer, copied.history):
        layer.flatten_parameters()  # a copy's weights do not lie in one block, which cuDNN needs
    plain, graphed = (training_step(each, inventory) for each in (copied, parser))
    gradients = GraphedGradients(graphed, source)
    found = []
    for rows, *shapes in batches_and_shapes(prepared):
        by_graph = gradients.gradients(PaddedBatch.of(source, rows, *shapes))
        results = plain.gradients([prepared.batch(rows).to(device)]), by_graph
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


def test_each_replay_draws_other_random_numbers(device):
    cuda_only(device)
    inventory = make_inventory(SYSTEM).to(device)
    prepared = examples(make_inventory(SYSTEM), TREES)
    source = BatchSource(prepared, device)
    batch = PaddedBatch.of(source, *batches_and_shapes(prepared)[0])
    step = training_step(network(inventory, dropout=0.5, device=device), inventory)
    gradients = GraphedGradients(step, source)
    losses = [float(gradients.gradients(batch)[0]) for _ in range(ROUNDS + 3)]
    assert len(set(losses)) == len(losses)


def test_tokens_are_changed_anew_in_each_replay(device):
    cuda_only(device)
    inventory = make_inventory(SYSTEM).to(device)
    prepared = examples(make_inventory(SYSTEM), TREES)
    source = BatchSource(prepared, device)
    batch = PaddedBatch.of(source, *batches_and_shapes(prepared)[0])
    seen = torch.zeros((), dtype=torch.long, device=device)

    def count(tokens):
        seen.add_(tokens.words)
        return tokens

    gradients = GraphedGradients(
        training_step(network(inventory, device=device), inventory), source, change_tokens=count
    )
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
