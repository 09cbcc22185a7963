"""The scorer of labels, compared with a loop over the words of one sentence after the other."""

import torch
from hypothesis import given
from hypothesis import strategies as st
from plain_parser import plain_label_scores

from parser.networks.scorers import LabelScorer
from parser.treebank.sentence import NO_HEAD

INPUTS, LABELS = 6, 4
LENGTHS = st.lists(st.integers(1, 8), min_size=1, max_size=6)


@given(LENGTHS)
def test_scores_loss_and_gradients_are_those_of_one_word_after_the_other(lengths):
    scorer = LabelScorer(INPUTS, 5, LABELS, dropout=0.0).double()
    table = torch.randn(sum(lengths) + 2, INPUTS, dtype=torch.double, requires_grad=True)
    heads = torch.cat([torch.randint(length + 1, (length,)) for length in lengths])
    labels = torch.randint(LABELS, (sum(lengths),))  # 0 is unknown
    *words, root, _ = table
    of_sentences = zip(torch.stack(words).split(lengths), heads.split(lengths), strict=True)
    expected = torch.cat([plain_label_scores(scorer, root, own, tree) for own, tree in of_sentences])
    torch.testing.assert_close(scorer(table, torch.tensor(lengths), heads), expected)
    picked = expected.log_softmax(1).gather(1, labels[:, None])[labels > 0].sum()
    heads = torch.where(labels + heads == 0, NO_HEAD, heads)
    loss = scorer.loss(table, torch.tensor(lengths), heads, labels)
    torch.testing.assert_close(loss, -picked)
    wanted = [table, *scorer.parameters()]
    for found, plain in zip(
        torch.autograd.grad(loss, wanted), torch.autograd.grad(-picked, wanted), strict=True
    ):
        torch.testing.assert_close(found, plain)


def test_dropout_is_for_training_alone():
    scorer = LabelScorer(INPUTS, 5, LABELS, dropout=0.5)
    table, lengths, heads = torch.randn(7, INPUTS), torch.tensor([2, 3]), torch.tensor([2, 0, 0, 1, 2])
    assert not torch.equal(scorer(table, lengths, heads), scorer(table, lengths, heads))
    scorer.eval()
    assert torch.equal(scorer(table, lengths, heads), scorer(table, lengths, heads))
