"""Replay, stepping and a plain parser compute the same function."""

from __future__ import annotations

import pytest
import torch
from extended import extended, first_of
from hypothesis import given
from hypothesis import strategies as st
from plain_parser import make_inventory
from small_parsers import (
    SOME_TREES,
    assert_equal,
    examples,
    loss_and_gradients,
    network,
    padded,
    plain_loss,
    scores_of,
    stepped,
)
from torch.testing import assert_close

from parser.batching import forest_lstm
from parser.batching.ragged import Padding, Ragged
from parser.networks import stack_parser, token_encoder
from parser.networks.loss import transition_loss
from parser.networks.replay.examples import Examples
from parser.networks.replay.shapes import LENGTH_RATIO, LevelSizes, Shape, common_shapes, fitting
from parser.speed.tasks.stack_parser.baselines import score_sentence, score_with_paper_decoder
from parser.transitions import SYSTEMS
from parser.treebank.tokens import Tokens

SYSTEM = "arc-hybrid"


def scoring_functions(parser, inventory):
    """All functions that score known trajectories in batches."""
    along = [lambda batch: stepped(parser, inventory, batch)]
    if parser.is_of_ding_and_koehn:
        along.append(lambda batch: scores_of(score_with_paper_decoder, parser, inventory, batch))
    return (parser.replay, *along)


def by_all(parser, inventory, batch, functions=None):
    """The losses and gradients by these functions, or by all."""
    return [
        loss_and_gradients(parser, transition_loss(run(batch), batch, inventory))
        for run in functions or scoring_functions(parser, inventory)
    ]


RICH = {"rich": True}
ABOVE_TAGS = {"predicts_upos": True, "reads_predicted": True, "word_features": True}
NETWORKS = [
    *((False, 2, {}), (True, 2, {}), (False, 1, RICH), (True, 2, RICH), (True, 1, ABOVE_TAGS)),
    *extended((False, 1, {}), (False, 3, {}), (True, 1, {}), (True, 1, RICH), (False, 1, ABOVE_TAGS)),
]


@pytest.mark.parametrize(("composition", "layers", "kind"), NETWORKS)
@pytest.mark.parametrize("system", SYSTEMS)
def test_replay_stepping_and_plain_python_agree(system, composition, layers, kind):
    inventory = make_inventory(system, composition=composition)
    parser, prepared = network(inventory, layers, **kind), examples(inventory, SOME_TREES, kind == RICH)
    results = by_all(parser, inventory, prepared.batch(torch.arange(len(prepared))))
    mixed = prepared.batch(torch.randperm(len(prepared)), group=None if composition else 4)
    results.append(loss_and_gradients(parser, parser(mixed, inventory).transitions))
    if parser.is_of_ding_and_koehn:
        losses = [
            transition_loss(scores_of(score_sentence, parser, inventory, alone), alone, inventory)
            for alone in (prepared.batch(torch.tensor([row])) for row in range(len(prepared)))
        ]
        results.append(loss_and_gradients(parser, torch.stack(losses).sum()))
    assert_equal([*results, loss_and_gradients(parser, plain_loss(parser, inventory, prepared))])


@pytest.mark.parametrize("composition", [False, True])
@pytest.mark.parametrize("system", SYSTEMS)
def test_batches_of_one_sentence(system, composition):
    """Some sentences have a single word. In arc-hybrid and arc-standard, nothing is composed for these."""
    inventory = make_inventory(system, composition=composition)
    parser = network(inventory, layers=2, rich=composition)
    prepared = examples(inventory, SOME_TREES, rich=composition)
    total = torch.zeros((), dtype=torch.double)
    for row in range(len(prepared)):
        batch = prepared.batch(torch.tensor([row]))
        first, *others = (run(batch) for run in scoring_functions(parser, inventory))
        for scores in others:
            assert_close(scores, first, rtol=1e-9, atol=1e-9)
        loss = transition_loss(first, batch, inventory)
        total += loss.detach()
        parser.zero_grad()
        loss.backward()
        assert all(weight.grad is None or weight.grad.isfinite().all() for weight in parser.parameters())
    assert_close(total, plain_loss(parser, inventory, prepared).detach())


KINDS = [*((system, False, False) for system in SYSTEMS), (SYSTEM, False, True), (SYSTEM, True, True)]


@pytest.mark.parametrize(("system", "composition", "rich"), KINDS)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.double, 1e-9), (torch.float, 2e-4)])
def test_replay_and_stepping_agree_on_the_device(system, composition, rich, dtype, tolerance, device):
    """In single precision a CPU uses other matrix products than in double precision."""
    cpu_inventory = make_inventory(system, composition=composition)
    inventory = cpu_inventory.to(device)
    prepared = examples(cpu_inventory, SOME_TREES, rich)
    batch = prepared.batch(torch.arange(len(prepared)))
    parser = network(inventory, layers=2, rich=rich)
    exact = loss_and_gradients(parser, transition_loss(parser.replay(batch), batch, cpu_inventory))
    parser, batch = parser.to(dtype).to(device), batch.to(device)
    results = by_all(parser, inventory, batch)
    assert_equal([exact, *([values.double() for values in result] for result in results)], tolerance)


@pytest.mark.parametrize("group", [1, 2, 5, 1000])
def test_padding_in_groups_changes_nothing(group, device):
    cpu_inventory = make_inventory("arc-hybrid")
    inventory = cpu_inventory.to(device)
    parser, prepared = network(inventory, layers=2, device=device), examples(cpu_inventory, SOME_TREES)
    rows = torch.randperm(len(prepared))
    batches = [prepared.batch(rows).to(device), prepared.batch(rows, group).to(device)]
    assert [batch.sentences for batch in batches] == [len(rows)] * 2
    assert_equal([by_all(parser, inventory, batch, [parser.replay])[0] for batch in batches])


@pytest.mark.extended
@pytest.mark.parametrize("system", first_of(SYSTEMS))
@pytest.mark.parametrize(
    "tree", first_of([tuple(range(1000)), (*range(2, 1001), 0)]), ids=["right branching", "left branching"]
)
def test_a_sentence_of_a_thousand_words(system, tree):
    """The deepest stacks: right branching for arc-hybrid and arc-standard, left branching for arc-eager."""
    inventory = make_inventory(system)
    parser, prepared = network(inventory), examples(inventory, [tree, (0,)])
    batch = prepared.batch(torch.tensor([0, 1]))
    with torch.no_grad():
        assert_close(parser.replay(batch), stepped(parser, inventory, batch), rtol=1e-9, atol=1e-9)


def test_gradients_of_a_deep_stack_agree():
    inventory = make_inventory("arc-hybrid")
    parser, prepared = network(inventory, layers=2), examples(inventory, [tuple(range(120))])
    batch = prepared.batch(torch.tensor([0]))
    assert_equal(by_all(parser, inventory, batch, scoring_functions(parser, inventory)[:2]))


def test_dropout_is_resampled_in_training_and_off_in_evaluation():
    inventory = make_inventory("arc-hybrid")
    parser, prepared = network(inventory, layers=2, dropout=0.5), examples(inventory, SOME_TREES)
    batch = prepared.batch(torch.arange(len(prepared)))
    parser.train()
    assert not torch.equal(parser.replay(batch), parser.replay(batch))
    parser.eval()
    assert torch.equal(parser.replay(batch), parser.replay(batch))
    assert_close(parser.replay(batch), stepped(parser, inventory, batch), rtol=1e-9, atol=1e-9)


def test_replay_samples_one_mask_for_each_word_node_and_step(monkeypatch):
    inventory, shapes = make_inventory("arc-hybrid"), []
    parser, prepared = network(inventory, layers=2, dropout=0.5), examples(inventory, SOME_TREES)
    batch = prepared.batch(torch.arange(len(prepared)))
    words, nodes, steps = batch.tokens.words, len(batch.node_vectors), len(batch.transitions)
    for module in (stack_parser, forest_lstm, token_encoder):
        monkeypatch.setattr(
            module, "dropout", lambda inputs, *_: shapes.append(tuple(inputs.shape)) or inputs
        )
    parser.replay(batch)
    assert shapes == [
        (words, 6),  # word vectors
        (nodes, 7),  # between the stack's two layers
        (nodes, 7),  # the output of the stack LSTM
        (batch.buffer_tokens[0].numel(), 7),
        (steps, 7),  # the output of the history LSTM
        (steps, 7),  # before the scores
    ]


def test_any_label_is_optimal_if_the_gold_label_is_unknown(device):
    inventory = make_inventory("arc-hybrid")
    heads = Ragged.of([torch.tensor([2, 0, 2])])
    tokens = Tokens(Ragged(torch.zeros(3, 2, dtype=torch.long), heads.lengths))
    labels = Ragged(torch.tensor([0, 1, 2]), heads.lengths)
    prepared, parser = Examples.prepare(inventory, tokens, heads, labels), network(inventory)
    batch = prepared.batch(torch.tensor([0]))
    expected = plain_loss(parser, inventory, prepared)
    parser, batch = parser.to(device), batch.to(device)
    loss = transition_loss(parser.replay(batch), batch, inventory.to(device)).cpu()
    assert_close(loss, expected, rtol=1e-9, atol=1e-9)


@given(st.data())
def test_random_trees_of_random_lengths(data):
    """Random projective trees, of other shapes and lengths than the enumerated ones."""
    system = data.draw(st.sampled_from(sorted(SYSTEMS)))
    inventory = make_inventory(system)
    lengths = data.draw(st.lists(st.sampled_from([1, 4, 9, 23]), min_size=1, max_size=3))
    trees = [random_tree(length, data.draw) for length in lengths]
    torch.manual_seed(0)
    parser, prepared = network(inventory), examples(inventory, trees)
    batch = prepared.batch(torch.arange(len(prepared)))
    assert_close(parser.replay(batch), stepped(parser, inventory, batch), rtol=1e-9, atol=1e-9)


def random_tree(length, draw):
    """A projective tree: choose a head, and build the words on either side recursively."""
    heads = [0] * length

    def fill(low, high, head):
        if low < high:
            middle = draw(st.integers(low, high - 1))
            heads[middle] = head
            fill(low, middle, middle + 1)
            fill(middle + 1, high, middle + 1)

    fill(0, length, 0)
    return tuple(heads)


@pytest.mark.parametrize("reads_predicted", [False, True])
def test_predicted_tags_are_not_inputs(reads_predicted):
    inventory = make_inventory("arc-hybrid")
    parser = network(inventory, predicts_upos=True, reads_predicted=reads_predicted)
    prepared = examples(inventory, SOME_TREES)
    tokens = prepared.tokens
    others = tokens.values.clone()
    others[:, 1] = 0
    words, tag_scores = parser.encode(tokens)
    assert torch.equal(words, parser.encode(Tokens(Ragged(others, tokens.lengths))).table)
    scores = parser.tokens(tokens) @ parser.tags["upos"].weight.T + parser.tags["upos"].bias
    gold = tokens.values[:, 1:2]
    expected = -scores.log_softmax(1).gather(1, gold)[gold > 0].sum()  # nothing is learnt from unknown values
    assert_close(parser.tagging_loss(tag_scores, tokens), expected)
    assert not network(inventory).tagging_loss([], tokens).any()


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("word_features", first_of([True, False]))
def test_losses_and_gradients_stay_the_same(system, word_features, device):
    inventory, prepared = make_inventory(system), examples(make_inventory(system), SOME_TREES)
    rows = torch.arange(0, len(prepared), 3)
    exact = prepared.shape(rows)
    [(buffer_frames, sentences)], [(history_frames, _)] = exact.buffers.shapes, exact.histories.shapes
    nodes, parents = exact.stack
    shapes = [
        exact,
        prepared.shape(torch.arange(len(prepared))),
        Shape(
            words=exact.words + 5,
            transitions=exact.transitions + 7,
            buffers=Padding(sentences + 2, ((buffer_frames + 1, sentences + 2),)),
            histories=Padding(sentences + 2, ((history_frames + 3, sentences + 2),)),
            stack=LevelSizes((*(n + 4 for n in nodes), 2, 1), (*(n + 1 for n in parents), 1, 0)),
        ),
    ]
    inventory = inventory.to(device)
    parser = network(inventory, layers=2, device=device, word_features=word_features)
    batches = [prepared.batch(rows), *(padded(prepared, rows, shape) for shape in shapes)]
    assert_equal([by_all(parser, inventory, batch.to(device), [parser.replay])[0] for batch in batches])


def sizes_of(batch):
    """The shapes and types of a batch's tensors."""
    sizes = []
    batch.map(lambda tensor: sizes.append((tensor.shape, tensor.dtype)) or tensor)
    return sizes


def test_batches_of_a_shape_have_tensors_of_the_same_shapes():
    prepared = examples(make_inventory(SYSTEM), SOME_TREES)
    batches = torch.randperm(len(prepared)).split(7)
    shape = Shape.around(map(prepared.shape, batches))
    found = [padded(prepared, rows, shape) for rows in batches]
    sizes = [(sizes_of(larger), larger.forest.levels) for larger in found]
    assert all(each == sizes[0] for each in sizes)
    assert len(found[0].node_vectors) == sum(shape.stack.nodes)


@pytest.mark.parametrize("missing", ["sentences", "a level of the stack"])
def test_a_shape_that_is_too_small(missing):
    prepared, rows = examples(make_inventory(SYSTEM), SOME_TREES), torch.arange(5)
    shape = prepared.shape(rows)
    small = shape._replace(stack=LevelSizes(*(sizes[:-1] for sizes in shape.stack)))
    with pytest.raises(ValueError, match="does not hold"):
        padded(prepared, rows, prepared.shape(rows[:2]) if missing == "sentences" else small)


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_last_sentence_of_a_batch_composes_nothing(system):
    inventory = make_inventory(system, composition=True)
    parser, prepared = network(inventory), examples(inventory, [(2, 0, 2), (0,), (0, 1)])
    together = prepared.batch(torch.tensor([0, 2, 1]))
    loss = transition_loss(parser.replay(together), together, inventory)
    assert_close(loss, plain_loss(parser, inventory, prepared))


@pytest.mark.parametrize("composition", [False, True])
@pytest.mark.parametrize("system", SYSTEMS)
@given(size=st.integers(1, 12), seed=st.integers(0, 99), group=st.sampled_from([None, 3]))
def test_a_sentence_is_in_a_batch_as_it_is_alone(system, composition, size, seed, group):
    torch.manual_seed(seed)
    prepared = examples(make_inventory(system, composition=composition), SOME_TREES)
    rows = torch.randperm(len(prepared))[:size]
    rows = rows[prepared.tokens.lengths[rows].argsort(descending=True, stable=True)]
    batch, alone = prepared.batch(rows, group), [prepared.batch(row[None]) for row in rows]
    for name in ("transitions", "legal", "optimal_labels", "front", "heads", "labels"):
        assert torch.equal(getattr(batch, name), torch.cat([getattr(own, name) for own in alone])), name
    words = batch.tokens.words
    starts = [0, *prepared.tokens.lengths[rows].cumsum(0).tolist()]
    steps = [0, *prepared.trajectories.steps.lengths[rows].cumsum(0).tolist()]
    for number, own in enumerate(alone):
        here = slice(steps[number], steps[number + 1])
        length = own.tokens.words
        of_batch, of_own = batch.word_features[here], own.word_features
        is_word = of_own < length
        assert torch.equal(of_batch[is_word], of_own[is_word] + starts[number])
        of_end = (of_own >= length) & (of_own < length + 2)
        assert torch.equal(of_batch[of_end], of_own[of_end] + words - length)
        assert (of_batch[of_own >= length + 2] >= words + 2).all()


def test_common_shapes_hold_their_batches_and_grow():
    prepared = examples(make_inventory(SYSTEM), SOME_TREES)
    by_length = prepared.tokens.lengths.argsort()
    shapes = list(map(prepared.shape, by_length.split(3)))
    common = common_shapes(shapes)
    assert 1 < len(common) < len(shapes)
    lengths = [shape.longest for shape in common]
    assert lengths == sorted(set(lengths))
    for shape in shapes:
        found = fitting(common, shape)
        assert found.holds(shape)
        assert (found.longest + 1) / (shape.longest + 1) < LENGTH_RATIO**2
    assert fitting(common[:1], shapes[-1]) is None
