"""Exploration: rollouts, their optimal labels, and replaying them."""

import pytest
import torch
from extended import first_of
from plain_parser import Configuration, PlainParser, make_inventory
from small_parsers import (
    SOME_KNOWN_IN_PART,
    SOME_TREES,
    assert_equal,
    examples,
    loss_and_gradients,
    network,
    stepped,
)

from parser.networks.loss import transition_loss
from parser.networks.replay.examples import Examples
from parser.networks.stepping.exploration import ExplorationSettings, explore
from parser.transitions.inventory import NOT_OPTIMAL
from parser.treebank.sentence import NO_HEAD

SYSTEMS = ("arc-hybrid", "arc-eager")
FLAT = ExplorationSettings(sharpness=0.5)
SHARP = ExplorationSettings(sharpness=1e6)
ERRORS = ExplorationSettings(follow="errors", aggressive_probability=0.0)
AGGRESSIVE = ExplorationSettings(follow="errors", aggressive_probability=0.3)
ONLY_RIGHT = None


def explored_examples(parser, inventory, prepared, rows, settings):
    device = parser.tokens.root.device
    tokens, gold = prepared.tokens.select(rows), prepared.gold.select(rows)
    facts = prepared.facts and prepared.facts.select(rows)
    trajectory = explore(parser, inventory.to(device), tokens, gold, settings, facts)
    return Examples.of_trajectory(inventory, tokens, gold, trajectory.to(torch.device("cpu")))


@pytest.mark.parametrize("trees", [SOME_TREES, SOME_KNOWN_IN_PART], ids=["complete", "known in part"])
@pytest.mark.parametrize("composition", first_of([True, False]))
@pytest.mark.parametrize("system", SYSTEMS)
def test_replay_of_a_rollout_agrees_with_plain_python(system, composition, trees):
    inventory = make_inventory(system, composition=composition)
    parser, prepared = network(inventory, layers=2, rich=True), examples(inventory, trees, rich=True)
    rows = torch.randperm(len(prepared))
    found = explored_examples(parser, inventory, prepared, rows, FLAT)
    assert (found.trajectories.optimal_labels.values != NOT_OPTIMAL).sum() > len(
        found.trajectories.optimal_labels.values
    )  # some steps have several optimal transitions
    batch = found.batch(torch.arange(len(found)))
    results = [
        loss_and_gradients(parser, transition_loss(run(batch), batch, inventory))
        for run in (parser.replay, lambda batch: stepped(parser, inventory, batch))
    ]
    total = 0
    for row, steps, right in zip(
        rows, found.trajectories.steps.unflatten(), found.trajectories.optimal_labels.unflatten(), strict=True
    ):
        plain = PlainParser(parser, inventory, prepared.tokens.select(row[None]))
        for (transition, *_), labels in zip(steps.tolist(), right, strict=True):
            wanted = [
                int(inventory.number[k, label]) for k, label in enumerate(labels) if label != NOT_OPTIMAL
            ]
            total = total + plain.step_loss(wanted)
            plain.take(transition)
        assert plain.configuration.finished()
    assert_equal([*results, loss_and_gradients(parser, total)])


@pytest.mark.parametrize("settings", first_of([ERRORS, SHARP]), ids=["errors", "very sharp samples"])
@pytest.mark.parametrize("system", SYSTEMS)
def test_the_extremes_parse_greedily(system, settings, device):
    inventory = make_inventory(system, composition=True)
    parser, prepared = (
        network(inventory, layers=2, device=device, rich=True),
        examples(inventory, SOME_TREES, rich=True),
    )
    rows = torch.arange(len(prepared))
    found = explored_examples(parser, inventory, prepared, rows, settings)
    on_cpu = parser.cpu()
    for row, steps in zip(rows, found.trajectories.steps.unflatten(), strict=True):
        heads, *_ = PlainParser(on_cpu, inventory, prepared.tokens.select(row[None])).parse()
        assert dict(arcs(inventory, steps)) == dict(enumerate(heads, 1))


def arcs(inventory, steps):
    """The (dependent, head) pairs of a trajectory, from the plain system."""
    # The last B0 is the end of the buffer; in arc-eager it is the last word.
    words = int(steps[:, 1].max()) - (inventory.system.name != "arc-eager")
    configuration = Configuration(inventory.system.name, words)
    for transition in steps[:, 0].tolist():
        configuration.apply(inventory.system.transitions[int(inventory.kind[transition])].name)
    return configuration.heads.items()


@pytest.mark.parametrize("system", SYSTEMS)
def test_samples_follow_the_flattened_distribution(system):
    """The first transition of a sentence, sampled many times."""
    inventory = make_inventory(system)
    parser, prepared = network(inventory), examples(inventory, [(2, 0)] * 3)
    rows = torch.zeros(4000, dtype=torch.long)
    found = explored_examples(parser, inventory, prepared, rows, FLAT)
    first = found.trajectories.steps.values[found.trajectories.steps.offsets, 0]
    shares = torch.bincount(first, minlength=len(inventory)) / len(rows)
    plain = PlainParser(parser, inventory, prepared.tokens.select(rows[:1]))
    expected = (plain.scores() * 0.5).softmax(0)
    torch.testing.assert_close(shares.double(), expected.detach(), atol=0.03, rtol=0)


@pytest.mark.parametrize("system", first_of(SYSTEMS))
def test_wrong_transitions_of_nearly_the_best_score_are_followed_at_times(system):
    inventory = make_inventory(system)
    parser, prepared = network(inventory), examples(inventory, SOME_TREES)
    rows = torch.arange(len(prepared)).repeat(8)
    found = explored_examples(parser, inventory, prepared, rows, AGGRESSIVE)
    followed = []
    for row, steps, right in zip(
        rows, found.trajectories.steps.unflatten(), found.trajectories.optimal_labels.unflatten(), strict=True
    ):
        plain = PlainParser(parser, inventory, prepared.tokens.select(row[None]))
        for transition, optimal in zip(steps[:, 0], inventory.with_optimal_labels(right), strict=True):
            scores = plain.scores().detach()
            best_right = scores.where(optimal, float("-inf")).argmax()
            best_wrong = scores.where(~optimal, float("-inf")).argmax()
            if 0 < scores[best_right] - scores[best_wrong] <= 1:
                followed.append(bool(transition == best_wrong))
                assert transition in (best_right, best_wrong)
            else:
                assert transition == scores.argmax()
            plain.take(int(transition))
    assert len(followed) > 40
    assert sum(followed) / len(followed) == pytest.approx(0.3, abs=0.15)


@pytest.mark.parametrize("trees", [SOME_TREES, SOME_KNOWN_IN_PART], ids=["complete", "known in part"])
@pytest.mark.parametrize("system", SYSTEMS)
def test_the_best_right_transitions_make_all_known_arcs(system, trees, device):
    inventory = make_inventory(system)
    parser, prepared = network(inventory, device=device), examples(inventory, trees)
    rows = torch.arange(len(prepared))
    found = explored_examples(parser, inventory, prepared, rows, ONLY_RIGHT)
    on_cpu = parser.cpu()
    for tree, row, steps, right in zip(
        trees,
        rows,
        found.trajectories.steps.unflatten(),
        found.trajectories.optimal_labels.unflatten(),
        strict=True,
    ):
        plain = PlainParser(on_cpu, inventory, prepared.tokens.select(row[None]))
        for transition, optimal in zip(steps[:, 0], inventory.with_optimal_labels(right), strict=True):
            assert transition == plain.scores().detach().where(optimal, float("-inf")).argmax()
            plain.take(int(transition))
        heads = plain.configuration.tree()
        assert all(known in (NO_HEAD, head) for known, head in zip(tree, heads, strict=True))


def test_rollouts_have_no_dropout():
    inventory = make_inventory("arc-hybrid")
    parser, prepared = network(inventory, dropout=0.5).train(), examples(inventory, SOME_TREES)
    rows = torch.arange(len(prepared))
    first, second = (explored_examples(parser, inventory, prepared, rows, ERRORS) for _ in range(2))
    assert torch.equal(first.trajectories.steps.values, second.trajectories.steps.values)
    assert parser.training
