import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from parser.treebank.batches import split_by_words, length_buckets, padding_share


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@given(st.lists(st.integers(1, 60), min_size=1, max_size=80), st.integers(1, 20), st.booleans())
def test_every_sentence_is_in_one_batch(lengths, size, by_words):
    batches = length_buckets(torch.tensor(lengths), size, by_words, generator())
    assert sorted(torch.cat(batches).tolist()) == list(range(len(lengths)))
    assert all(len(batch) for batch in batches)


@given(st.lists(st.integers(1, 60), min_size=1, max_size=80), st.integers(1, 200))
def test_no_batch_exceeds_its_words_unless_it_is_one_sentence(lengths, size):
    lengths = torch.tensor(lengths)
    for batch in length_buckets(lengths, size, True, generator()):
        assert len(batch) == 1 or len(batch) * lengths[batch].max() <= size


def test_batches_hold_sentences_of_like_length():
    lengths = torch.arange(1, 101).repeat(10)
    batches = length_buckets(lengths, 10, False, generator())
    assert max(int(lengths[batch].max() - lengths[batch].min()) for batch in batches) <= 1


def test_each_epoch_has_other_batches_in_another_order_and_a_seed_gives_the_same():
    lengths = torch.randint(5, 15, (200,))

    def content(seed):
        return [tuple(batch.tolist()) for batch in length_buckets(lengths, 16, False, generator(seed))]

    assert content(1) == content(1)
    assert {frozenset(batch) for batch in content(1)} != {frozenset(batch) for batch in content(2)}
    first_lengths = [int(lengths[batch[0]]) for batch in content(1)]
    assert first_lengths != sorted(first_lengths)


def test_padding_share():
    assert padding_share(torch.tensor([4, 4])) == 0
    assert padding_share(torch.tensor([1, 3])) == pytest.approx(2 / 6)


@given(st.lists(st.integers(1, 60), min_size=1, max_size=80), st.integers(1, 200), st.integers(1, 200))
def test_a_batch_is_cut_only_where_the_next_sentence_would_be_too_much(lengths, size, first):
    lengths.sort()
    batches = split_by_words(torch.arange(len(lengths)), lengths, size, first)
    assert torch.cat(batches).tolist() == list(range(len(lengths)))
    limits = [first] + [size] * len(lengths)
    for limit, batch, following in zip(limits, batches, batches[1:], strict=False):
        assert (len(batch) + 1) * lengths[following[0]] > limit
        assert len(batch) == 1 or len(batch) * lengths[batch[-1]] <= limit
