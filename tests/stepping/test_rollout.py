"""Exploring: where a rollout goes, what is right there, and that replay learns from it what steps would."""

import pytest
import torch
from plain import Configuration, PlainParser, inventory
from small_parsers import SOME_TREES, assert_equal, examples, loss_and_gradients, network

from parser.config import ExplorationSettings
from parser.networks.loss import transition_loss
from parser.replay.examples import Examples
from parser.stepping.rollout import explored
from parser.stepping.stepper import score_by_stepping
from parser.transitions.inventory import NOT_OPTIMAL

SYSTEMS = ("arc-hybrid", "arc-eager")
FLAT = ExplorationSettings(sharpness=0.5)


def explore(parser, of, prepared, rows, settings):
    device = parser.tokens.root.device
    tokens, gold = prepared.tokens.select(rows), prepared.gold.select(rows)
    trajectory = explored(parser, of.to(device), tokens.to(device), gold, settings)
    return Examples.of_trajectory(of, tokens, gold, trajectory.to(torch.device("cpu")))


@pytest.mark.parametrize("composition", [False, True])
@pytest.mark.parametrize("system", SYSTEMS)
def test_replay_learns_from_a_rollout_what_plain_python_would(system, composition):
    of = inventory(system, composition=composition)
    parser, prepared = network(of, layers=2, rich=True), examples(of, SOME_TREES, rich=True)
    rows = torch.randperm(len(prepared))
    found = explore(parser, of, prepared, rows, FLAT)
    assert (found.optimal_labels.values != NOT_OPTIMAL).sum() > len(found.optimal_labels.values)  # several are right at times
    batch = found.batch(torch.arange(len(found)))
    results = [
        loss_and_gradients(parser, transition_loss(run(batch), batch, of))
        for run in (parser.replay, lambda batch: score_by_stepping(parser, of, batch))
    ]
    total = 0
    for row, steps, right in zip(rows, found.steps.unflatten(), found.optimal_labels.unflatten(), strict=True):
        plain = PlainParser(parser, of, prepared.tokens.select(row[None]))
        for (transition, *_), labels in zip(steps.tolist(), right, strict=True):
            wanted = [int(of.number[k, label]) for k, label in enumerate(labels) if label != NOT_OPTIMAL]
            total = total + plain.step_loss(wanted)
            plain.take(transition)
        assert plain.configuration.finished()
    assert_equal([*results, loss_and_gradients(parser, total)])


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_very_sharp_distribution_is_the_greedy_parser(system, device):
    of = inventory(system, composition=True)
    parser, prepared = network(of, layers=2, device=device, rich=True), examples(of, SOME_TREES, rich=True)
    rows = torch.arange(len(prepared))
    found = explore(parser, of, prepared, rows, ExplorationSettings(sharpness=1e6))
    on_cpu = parser.cpu()
    for row, steps in zip(rows, found.steps.unflatten(), strict=True):
        heads, *_ = PlainParser(on_cpu, of, prepared.tokens.select(row[None])).parse()
        assert dict(arcs(of, steps)) == dict(enumerate(heads, 1))


def arcs(of, steps):
    """(dependent, head) of a trajectory, on lists."""
    # The last front is behind the last word; arc-eager ends with its last word in the buffer.
    words = int(steps[:, 1].max()) - (of.system.name != "arc-eager")
    configuration = Configuration(of.system.name, words)
    for transition in steps[:, 0].tolist():
        configuration.apply(of.system.transitions[int(of.kind[transition])].name)
    return configuration.heads.items()


@pytest.mark.parametrize("system", SYSTEMS)
def test_draws_follow_the_flattened_distribution(system):
    """The first transition of a sentence, drawn many times."""
    of = inventory(system)
    parser, prepared = network(of), examples(of, [(2, 0)] * 3)
    rows = torch.zeros(4000, dtype=torch.long)
    found = explore(parser, of, prepared, rows, FLAT)
    first = found.steps.values[found.steps.offsets, 0]
    shares = torch.bincount(first, minlength=len(of)) / len(rows)
    plain = PlainParser(parser, of, prepared.tokens.select(rows[:1]))
    expected = (plain.scores() * 0.5).softmax(0)
    torch.testing.assert_close(shares.double(), expected.detach(), atol=0.03, rtol=0)
