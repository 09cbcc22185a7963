"""The losses of transitions, compared with computing one step after the other."""

import math

import pytest
import torch
from extended import first_of
from plain_parser import make_inventory
from small_parsers import (
    SOME_KNOWN_IN_PART,
    SOME_TREES,
    assert_equal,
    examples,
    loss_and_gradients,
    network,
    padded,
)

from parser.networks.loss import transition_loss
from parser.networks.replay.examples import Examples
from parser.networks.stepping.exploration import ExplorationSettings, explore
from parser.training.config import read_config
from parser.training.run import train
from parser.transitions import SYSTEMS

OBJECTIVES = ("likelihood", "best", "margin")
CPU = torch.device("cpu")


def explored(system):
    """Examples in which some steps have several right transitions, and some have no wrong ones."""
    inventory, prepared = make_inventory(system), examples(make_inventory(system), SOME_TREES)
    parser, settings = network(inventory), ExplorationSettings(sharpness=0.5)
    trajectory = explore(parser, inventory, prepared.tokens, prepared.gold, settings)
    return inventory, Examples.of_trajectory(inventory, prepared.tokens, prepared.gold, trajectory)


def plain_loss(scores, legal, right, objective):
    """The loss of a step. scores: of all transitions. legal, right: whether each transition is."""
    wrong = [score for score, may, is_right in zip(scores, legal, right, strict=True) if may and not is_right]
    good = [score for score, is_right in zip(scores, right, strict=True) if is_right]
    if not wrong:
        return 0.0
    if objective == "margin":
        return max(0.0, 1 - max(good) + max(wrong))
    normaliser = sum(math.exp(score) for score in [*good, *wrong])
    counted = sum(map(math.exp, good)) if objective == "likelihood" else math.exp(max(good))
    return -math.log(counted / normaliser)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("system", ["arc-hybrid", "arc-eager"])
def test_losses_are_sums_over_the_steps(system, objective, device):
    inventory, prepared = explored(system)
    batch = prepared.batch(torch.arange(len(prepared)))
    scores = torch.randn(len(batch.transitions), len(inventory), dtype=torch.double)
    legal, right = inventory.with_labels(batch.legal), inventory.with_optimal_labels(batch.optimal_labels)
    assert (right.sum(1) > 1).any()
    steps = zip(scores.tolist(), legal.tolist(), right.tolist(), strict=True)
    plain = sum(plain_loss(*step, objective) for step in steps)
    on_device = scores.to(device).requires_grad_()
    ours = transition_loss(on_device, batch.to(device), inventory.to(device), objective)
    assert ours.item() == pytest.approx(plain, rel=1e-9)
    ours.backward()
    assert on_device.grad.isfinite().all()
    assert not on_device.grad.cpu()[~legal].any()


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("system", ["arc-hybrid", "arc-eager"])
def test_steps_where_nothing_is_known_teach_nothing(system, objective, device):
    inventory = make_inventory(system)
    prepared = examples(inventory, [*SOME_KNOWN_IN_PART, *SOME_TREES])
    batch = prepared.batch(torch.arange(len(prepared)))
    legal, right = inventory.with_labels(batch.legal), inventory.with_optimal_labels(batch.optimal_labels)
    decides = (legal & ~right).any(1)
    assert 0.1 < decides.float().mean() < 0.9
    scores = torch.randn(len(decides), len(inventory)).to(device).requires_grad_()
    losses = transition_loss(scores, batch.to(device), inventory.to(device), objective)
    losses.backward()
    assert not scores.grad[~decides].any()
    if objective != "margin":
        assert scores.grad[decides].any(1).all()


@pytest.mark.parametrize("trees", [[(-1, -1, -1)], [(-1,), (-1, -1), (-1, -1, -1, -1, -1)]])
@pytest.mark.parametrize("system", ["arc-hybrid", "arc-eager"])
def test_trees_of_which_nothing_is_known_have_no_loss_and_no_gradient(system, trees):
    inventory = make_inventory(system)
    batch = examples(inventory, trees).batch(torch.arange(len(trees)))
    total, *gradients = loss_and_gradients(
        parser := network(inventory, arcs=True), parser(batch, inventory).total
    )
    assert total == 0
    assert not any(gradient.any() for gradient in gradients)


@pytest.mark.parametrize("system", ["arc-hybrid", "arc-eager"])
def test_trees_that_are_known_in_part_change_nothing_for_complete_ones_of_their_batch(system):
    inventory, nothing = make_inventory(system), [(-1,) * len(tree) for tree in SOME_TREES]
    parser, both = network(inventory, arcs=True), examples(inventory, [*SOME_TREES, *nothing])
    alone, together = (both.batch(torch.arange(count)) for count in (len(SOME_TREES), len(both)))
    assert_equal([loss_and_gradients(parser, parser(each, inventory).total) for each in (alone, together)])


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("system", SYSTEMS)
def test_the_loss_of_padding_is_exactly_zero(system, objective, device):
    inventory = make_inventory(system).to(device)
    prepared, rows = examples(make_inventory(system), SOME_TREES), torch.arange(4)
    larger = padded(prepared, rows, prepared.shape(torch.arange(len(prepared)))).to(device)
    scores = torch.randn(len(larger.transitions), len(inventory), device=device, requires_grad=True)
    transition_loss(scores, larger, inventory, objective).backward()
    transitions = prepared.shape(rows).transitions
    assert not scores.grad[transitions:].any()
    assert scores.grad[:transitions].any()


@pytest.mark.extended
@pytest.mark.parametrize("objective", first_of(OBJECTIVES))
def test_a_parser_learns_by_each_of_them(config_file, tmp_path, objective):
    changes = [
        f"training.objective={objective}",
        "training.epochs=12",
        "training.learning_rate={start: 2e-2, peak: 2e-2, warmup_epochs: 0}",
        "training.exploration={follow: errors, probability: 1}",
    ]
    assert train(read_config(config_file, changes), tmp_path / objective, CPU).las == 100
