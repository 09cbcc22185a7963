"""The scorers of arcs and of labels, compared with loops over the words of one sentence after the other."""

from functools import partial

import pytest
import torch
from extended import first_of
from hypothesis import given
from hypothesis import strategies as st
from plain_parser import make_inventory, plain_label_scores
from small_parsers import SOME_TREES, assert_equal, examples, loss_and_gradients, network

from parser.batching.like_length import LENGTH_RATIO
from parser.networks.replay.batch import SoftTargets
from parser.networks.scorers import ArcScorer, LabelScorer, groups_of
from parser.transitions import SYSTEMS
from parser.treebank.sentence import NO_HEAD

LENGTHS = st.lists(st.integers(1, 12), min_size=1, max_size=8).map(torch.tensor)
INPUTS, LABELS = 6, 4


def scorer(dropout=0.0):
    return ArcScorer(INPUTS, 5, dropout).double()


def table_of(lengths):
    return torch.randn(int(lengths.sum()) + 2, INPUTS, dtype=torch.double)


def plain_log_probabilities(scorer, root, words):
    """[words, words + 1] log-probabilities. words: the vectors of one sentence."""
    candidates = [root, *words]
    rows = []
    for dependent, word in enumerate(words, 1):
        transformed = scorer.attention(scorer.dependent(word).relu())
        scores = [scorer.head(head).relu() @ transformed for head in candidates]
        scores[dependent] = torch.full_like(scores[0], -torch.inf)
        rows.append(torch.stack(scores).log_softmax(0))
    return torch.stack(rows)


def plain(scorer, table, lengths):
    *words, root, _ = table
    remaining = iter(words)
    sentences = [[next(remaining) for _ in range(length)] for length in lengths.tolist()]
    return [plain_log_probabilities(scorer, root, sentence) for sentence in sentences]


def some_heads(lengths):
    """A head for each word: another word of its sentence, or ROOT."""
    heads = []
    for length in lengths.tolist():
        heads += [
            head + (head >= word) for word, head in enumerate(torch.randint(length, (length,)).tolist(), 1)
        ]
    return torch.tensor(heads)


@given(LENGTHS)
def test_probabilities_are_those_of_one_word_after_the_other(lengths):
    own, table = scorer(), table_of(lengths)
    expected, found = plain(own, table, lengths), own.probabilities(table, lengths).split(lengths.tolist())
    groups = groups_of(lengths)
    for group, logs in zip(groups, own.log_probabilities(table, groups), strict=True):
        for sentence, of_sentence in zip(group.sentences.tolist(), logs, strict=True):
            length = int(lengths[sentence])
            of_words = of_sentence[:length, : length + 1]
            torch.testing.assert_close(of_words, expected[sentence], rtol=1e-9, atol=1e-9)
            wanted = torch.zeros_like(found[sentence])
            wanted[:, : length + 1] = expected[sentence].exp()
            torch.testing.assert_close(found[sentence], wanted, rtol=1e-9, atol=1e-9)


@given(LENGTHS)
def test_loss_and_gradients_are_those_of_one_word_after_the_other(lengths):
    own, table, heads = scorer(), table_of(lengths).requires_grad_(), some_heads(lengths)
    picked = torch.cat([
        of_sentence.gather(1, gold[:, None])
        for of_sentence, gold in zip(plain(own, table, lengths), heads.split(lengths.tolist()), strict=True)
    ])  # fmt: skip
    is_known = torch.rand(len(heads)) < 0.8
    picked, heads = picked[is_known], heads.where(is_known, NO_HEAD)
    wanted = [table, *own.parameters()]
    expected = torch.autograd.grad(-picked.sum(), wanted)
    loss = own.loss(table, lengths, heads)
    torch.testing.assert_close(loss, -picked.sum(), rtol=1e-9, atol=1e-9)
    for found, plain_one in zip(torch.autograd.grad(loss, wanted), expected, strict=True):
        torch.testing.assert_close(found, plain_one, rtol=1e-9, atol=1e-9)


@given(LENGTHS, st.sampled_from([0.3, 1.0]))
def test_the_loss_is_a_mixture_with_that_of_a_teacher(lengths, weight):
    own, table, heads = scorer(), table_of(lengths), some_heads(lengths)
    wanted = torch.zeros(len(heads), int(lengths.max()) + 1, dtype=torch.double)  # [W, longest + 1]
    expected = torch.zeros((), dtype=torch.double)
    words = iter(range(len(heads)))
    for of_sentence in plain(own, table, lengths):
        for of_word in of_sentence:
            word = next(words)
            possible = of_word.isfinite()
            wanted[word, : len(of_word)][possible] = torch.rand(int(possible.sum()), dtype=torch.double)
            wanted[word] /= wanted[word].sum()
            of_teacher = (wanted[word, : len(of_word)][possible] * of_word[possible]).sum()
            expected = expected - weight * of_teacher - (1 - weight) * of_word[heads[word]]
    targets = SoftTargets.of(wanted, wanted.shape[1], weight)
    torch.testing.assert_close(own.loss(table, lengths, heads, targets), expected, rtol=1e-9, atol=1e-9)


@given(LENGTHS, st.integers(1, 300))
def test_groups_have_all_sentences_of_similar_length_within_the_limit(lengths, limit):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("parser.batching.like_length.MAX_SCORES", limit)
        groups = groups_of(lengths)
    assert sorted(torch.cat([group.sentences for group in groups]).tolist()) == list(range(len(lengths)))
    for sentences, rows in groups:
        longest = int(lengths[sentences].max())
        assert longest <= LENGTH_RATIO * int(lengths[sentences].min())
        assert len(sentences) == 1 or len(sentences) * longest**2 <= limit
        assert rows.shape == (len(sentences), longest + 1)


@pytest.mark.parametrize("composition", first_of([False, True]))
@pytest.mark.parametrize("system", SYSTEMS)
def test_the_loss_of_a_batch_has_that_of_its_gold_heads_and_labels_with_its_weight(system, composition):
    inventory = make_inventory(system, composition=composition)
    parser = network(inventory, rich=True, arcs=True)
    prepared = examples(inventory, SOME_TREES, rich=True)
    batch = prepared.batch(torch.randperm(len(prepared)), group=4)
    found = parser(batch, inventory)
    expected = torch.zeros((), dtype=torch.double)
    for row, tree in enumerate(SOME_TREES):
        alone = prepared.batch(torch.tensor([row]))
        *words, root, _ = parser.word_table(alone.tokens)
        probabilities = plain_log_probabilities(parser.arcs, root, words)
        expected = expected - sum(own[head] for own, head in zip(probabilities, tree, strict=True))
        of_labels = plain_label_scores(parser.labels, root, words, tree).log_softmax(1)
        expected = expected - of_labels.gather(1, alone.labels[:, None]).sum()
    torch.testing.assert_close(found.words, 0.25 * expected, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(found.total, found.transitions + found.words)


def test_a_batch_has_the_gradients_of_its_sentences_together():
    inventory = make_inventory("arc-hybrid")
    parser, prepared = network(inventory, arcs=True), examples(inventory, SOME_TREES)
    whole = prepared.batch(torch.arange(len(prepared)))
    alone = [prepared.batch(torch.tensor([row])) for row in range(len(prepared))]
    assert_equal([
        loss_and_gradients(parser, parser(whole, inventory).total),
        loss_and_gradients(parser, torch.stack([parser(one, inventory).total for one in alone]).sum()),
    ])  # fmt: skip


@given(LENGTHS)
def test_labels_scores_loss_and_gradients_are_those_of_one_word_after_the_other(lengths):
    scorer = LabelScorer(INPUTS, 5, LABELS, dropout=0.0).double()
    table, each = table_of(lengths).requires_grad_(), lengths.tolist()
    heads = torch.cat([torch.randint(length + 1, (length,)) for length in each])
    labels = torch.randint(LABELS, (sum(each),))  # 0 is unknown
    *words, root, _ = table
    of_sentences = zip(torch.stack(words).split(each), heads.split(each), strict=True)
    expected = torch.cat([plain_label_scores(scorer, root, rows, tree) for rows, tree in of_sentences])
    torch.testing.assert_close(scorer(table, lengths, heads), expected)
    picked = expected.log_softmax(1).gather(1, labels[:, None])[labels > 0].sum()
    heads = torch.where(labels + heads == 0, NO_HEAD, heads)
    loss = scorer.loss(table, lengths, heads, labels)
    torch.testing.assert_close(loss, -picked)
    wanted = [table, *scorer.parameters()]
    for found, plain in zip(
        torch.autograd.grad(loss, wanted), torch.autograd.grad(-picked, wanted), strict=True
    ):
        torch.testing.assert_close(found, plain)


@pytest.mark.parametrize("kind", [ArcScorer, partial(LabelScorer, labels=LABELS)])
def test_dropout_is_for_training_alone(kind):
    scorer, lengths = kind(INPUTS, 5, dropout=0.5).double(), torch.tensor([3, 5])
    inputs = table_of(lengths), lengths, some_heads(lengths)
    score = scorer.loss if isinstance(scorer, ArcScorer) else scorer
    assert not torch.equal(score(*inputs), score(*inputs))
    scorer.eval()
    assert torch.equal(score(*inputs), score(*inputs))
