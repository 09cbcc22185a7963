"""Replay, step and a plain parser compute the same function."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from plain import inventory
from small_parsers import (
    SOME_TREES,
    assert_equal,
    examples,
    loss_and_gradients,
    network,
    plain_loss,
)

from parser.baselines.unbatched import score_sentence
from parser.baselines.paper_decoder import score_with_paper_decoder
from parser.networks import stack_lstm, stack_parser, token_encoder
from parser.networks.loss import transition_loss
from parser.replay.examples import Examples
from parser.stepping.stepper import score_by_stepping
from parser.transitions import SYSTEMS
from parser.treebank.ragged import Ragged
from parser.treebank.tokens import Tokens


def every_way(parser, of):
    """Functions that score a batch's known trajectories."""
    along = [lambda batch: score_by_stepping(parser, of, batch)]
    if not of.system.composes:
        along.append(lambda batch: score_with_paper_decoder(parser, of, batch))
    return (parser.replay, *along)


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_replay_step_and_plain_python_agree(system, layers):
    of = inventory(system)
    parser, prepared = network(of, layers), examples(of, SOME_TREES)
    batch = prepared.batch(torch.arange(len(prepared)))
    results = [
        loss_and_gradients(parser, transition_loss(run(batch), batch, of)) for run in every_way(parser, of)
    ]
    one_by_one = [prepared.batch(torch.tensor([row])) for row in range(len(prepared))]
    losses = [transition_loss(score_sentence(parser, of, alone), alone, of) for alone in one_by_one]
    results.append(loss_and_gradients(parser, torch.stack(losses).sum()))
    assert_equal([*results, loss_and_gradients(parser, plain_loss(parser, of, prepared))])


@pytest.mark.parametrize("composition", [False, True])
@pytest.mark.parametrize("system", SYSTEMS)
def test_each_tree_alone(system, composition):
    """Some have a single transition, or a single word."""
    of = inventory(system, composition=composition)
    parser, prepared = network(of, layers=2, rich=composition), examples(of, SOME_TREES, rich=composition)
    for row in range(len(prepared)):
        batch = prepared.batch(torch.tensor([row]))
        first, *others = (run(batch) for run in every_way(parser, of))
        for scores in others:
            torch.testing.assert_close(scores, first, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("rich", [False, True], ids=["words and tags", "characters, features, sentences"])
@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("layers", [1, 2])
def test_composition_by_replay_by_step_and_in_plain_python(system, layers, rich):
    of = inventory(system, composition=True)
    parser, prepared = network(of, layers, rich=rich), examples(of, SOME_TREES, rich)
    batch = prepared.batch(torch.arange(len(prepared)))
    results = [
        loss_and_gradients(parser, transition_loss(run(batch), batch, of)) for run in every_way(parser, of)
    ]
    assert_equal([*results, loss_and_gradients(parser, plain_loss(parser, of, prepared))])


@pytest.mark.parametrize("system", SYSTEMS)
def test_rich_words_without_composition(system):
    of = inventory(system)
    parser, prepared = network(of, rich=True), examples(of, SOME_TREES, rich=True)
    batch = prepared.batch(torch.randperm(len(prepared)), group=4)
    whole = prepared.batch(torch.arange(len(prepared)))
    results = [
        loss_and_gradients(parser, transition_loss(parser.replay(batch), batch, of)),
        loss_and_gradients(parser, transition_loss(score_by_stepping(parser, of, whole), whole, of)),
    ]
    assert_equal([*results, loss_and_gradients(parser, plain_loss(parser, of, prepared))])


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.double, 1e-9), (torch.float, 2e-4)])
def test_replay_and_step_agree_on_the_device(system, dtype, tolerance, device):
    """In single precision a CPU takes other products than in double."""
    cpu_inventory = inventory(system)
    of = cpu_inventory.to(device)
    prepared = examples(cpu_inventory, SOME_TREES)
    batch = prepared.batch(torch.arange(len(prepared)))
    parser = network(of, layers=2)
    exact = loss_and_gradients(parser, transition_loss(parser.replay(batch), batch, cpu_inventory))
    parser, batch = parser.to(dtype).to(device), batch.to(device)
    results = [
        loss_and_gradients(parser, transition_loss(run(batch), batch, of)) for run in every_way(parser, of)
    ]
    assert_equal([exact, *([values.double() for values in result] for result in results)], tolerance)


@pytest.mark.parametrize("system", SYSTEMS)
def test_neighbours_and_batch_size_change_nothing(system):
    of = inventory(system)
    parser, prepared = network(of, layers=2), examples(of, SOME_TREES)
    order = torch.randperm(len(prepared))
    results = []
    for size in (1, 4, len(prepared)):
        total = torch.zeros((), dtype=torch.double)
        for rows in order.split(size):
            batch = prepared.batch(rows)
            total = total + transition_loss(parser.replay(batch), batch, of)
        results.append(loss_and_gradients(parser, total))
    assert_equal(results)


@pytest.mark.parametrize("group", [1, 2, 5, 1000])
def test_padding_in_groups_changes_nothing(group, device):
    cpu_inventory = inventory("arc-hybrid")
    of = cpu_inventory.to(device)
    parser, prepared = network(of, layers=2, device=device), examples(cpu_inventory, SOME_TREES)
    rows = torch.randperm(len(prepared))
    results = []
    for batch in (prepared.batch(rows), prepared.batch(rows, group)):
        batch = batch.to(device)
        assert batch.sentences == len(rows)
        results.append(loss_and_gradients(parser, transition_loss(parser.replay(batch), batch, of)))
    assert_equal(results)


def right_branching(length):
    return tuple(range(length))


def left_branching(length):
    return (*range(2, length + 1), 0)


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("tree", [right_branching(1000), left_branching(1000)], ids=["right", "left"])
def test_a_sentence_of_a_thousand_words(system, tree):
    """Right branches make the stack of hybrid and standard as deep, and left branches eager's, as it gets."""
    of = inventory(system)
    parser, prepared = network(of), examples(of, [tree, (0,)])
    batch = prepared.batch(torch.tensor([0, 1]))
    with torch.no_grad():
        torch.testing.assert_close(parser.replay(batch), score_by_stepping(parser, of, batch), rtol=1e-9, atol=1e-9)


def test_a_deep_stack_has_gradients_equal_in_step_and_replay():
    of = inventory("arc-hybrid")
    parser, prepared = network(of, layers=2), examples(of, [right_branching(120)])
    batch = prepared.batch(torch.tensor([0]))
    results = [
        loss_and_gradients(parser, transition_loss(run(batch), batch, of))
        for run in (parser.replay, lambda batch: score_by_stepping(parser, of, batch))
    ]
    assert_equal(results)


def test_dropout_draws_anew_in_training_and_is_off_otherwise():
    of = inventory("arc-hybrid")
    parser, prepared = network(of, layers=2, dropout=0.5), examples(of, SOME_TREES)
    batch = prepared.batch(torch.arange(len(prepared)))
    parser.train()
    assert not torch.equal(parser.replay(batch), parser.replay(batch))
    parser.eval()
    assert torch.equal(parser.replay(batch), parser.replay(batch))
    torch.testing.assert_close(parser.replay(batch), score_by_stepping(parser, of, batch), rtol=1e-9, atol=1e-9)


def inputs_of_dropout(monkeypatch, run):
    """The shapes of what is dropped from, in order."""
    shapes = []

    def watched(tensor, probability, training):
        shapes.append(tuple(tensor.shape))
        return tensor

    for module in (stack_parser, stack_lstm, token_encoder):
        monkeypatch.setattr(module, "dropout", watched)
    run()
    return shapes


def test_replay_draws_one_mask_for_each_word_node_and_step(monkeypatch):
    of = inventory("arc-hybrid")
    parser, prepared = network(of, layers=2, dropout=0.5), examples(of, SOME_TREES)
    batch = prepared.batch(torch.arange(len(prepared)))
    words, nodes, steps = batch.tokens.words, len(batch.node_vectors), len(batch.transitions)
    shapes = inputs_of_dropout(monkeypatch, lambda: parser.replay(batch))
    assert shapes == [
        (words, 6),  # word vectors
        (nodes, 7),  # between the stack's two layers
        (nodes, 7),  # what the stack shows
        (batch.buffer_tokens[0].numel(), 7),
        (steps, 7),  # what the history shows
        (steps, 7),  # before the scores
    ]


def test_any_label_is_right_where_training_never_saw_the_right_one(device):
    of = inventory("arc-hybrid")
    heads = Ragged.of([torch.tensor([2, 0, 2])])
    tokens = Tokens(Ragged(torch.zeros(3, 2, dtype=torch.long), heads.lengths))
    labels = Ragged(torch.tensor([0, 1, 2]), heads.lengths)
    prepared, parser = Examples.prepare(of, tokens, heads, labels), network(of)
    batch = prepared.batch(torch.tensor([0]))
    expected = plain_loss(parser, of, prepared)
    parser, batch = parser.to(device), batch.to(device)
    loss = transition_loss(parser.replay(batch), batch, of.to(device)).cpu()
    torch.testing.assert_close(loss, expected, rtol=1e-9, atol=1e-9)


@given(st.data())
def test_random_trees_of_random_lengths(data):
    """Trees from random legal walks: other shapes and lengths than the enumerated ones."""
    system = data.draw(st.sampled_from(sorted(SYSTEMS)))
    of = inventory(system)
    trees = data.draw(
        st.lists(st.sampled_from([1, 4, 9, 23]), min_size=1, max_size=3).map(
            lambda lengths: [random_tree(length, data.draw) for length in lengths]
        )
    )
    torch.manual_seed(0)
    parser, prepared = network(of), examples(of, trees)
    batch = prepared.batch(torch.arange(len(prepared)))
    torch.testing.assert_close(parser.replay(batch), score_by_stepping(parser, of, batch), rtol=1e-9, atol=1e-9)


def random_tree(length, draw):
    """A projective tree: split the words around a head, and let each side do the same."""
    heads = [0] * length

    def fill(low, high, head):
        if low < high:
            middle = draw(st.integers(low, high - 1))
            heads[middle] = head
            fill(low, middle, middle + 1)
            fill(middle + 1, high, middle + 1)

    fill(0, length, 0)
    return tuple(heads)


def test_tags_that_are_learnt_are_not_read():
    of = inventory("arc-hybrid")
    parser, prepared = network(of, auxiliary_tags=("upos",)), examples(of, SOME_TREES)
    tokens = prepared.tokens
    others = tokens.values.clone()
    others[:, 1] = 0
    words = parser.tokens(tokens)
    assert torch.equal(words, parser.tokens(Tokens(Ragged(others, tokens.lengths))))
    scores = words[:-2] @ parser.tags["upos"].weight.T + parser.tags["upos"].bias
    expected = -scores.log_softmax(1).gather(1, tokens.values[:, 1:2]).sum()
    torch.testing.assert_close(parser.tagging_loss(words, tokens), expected)
    assert not network(of).tagging_loss(words, tokens).any()


@pytest.mark.parametrize("composition", [False, True])
def test_rich_networks_give_the_cpus_results_on_the_device(composition, device):
    cpu_inventory = inventory("arc-hybrid", composition=composition)
    of = cpu_inventory.to(device)
    prepared = examples(cpu_inventory, SOME_TREES, rich=True)
    batch = prepared.batch(torch.arange(len(prepared)))
    parser = network(of, layers=2, rich=True)
    exact = loss_and_gradients(parser, transition_loss(parser.replay(batch), batch, cpu_inventory))
    parser, batch = parser.to(device), batch.to(device)
    ways = (parser.replay, lambda batch: score_by_stepping(parser, of, batch))
    results = [loss_and_gradients(parser, transition_loss(run(batch), batch, of)) for run in ways]
    assert_equal([exact, *results])
