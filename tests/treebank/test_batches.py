import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from parser.treebank.batches import length_buckets, padding_share, split_by_words


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@given(st.lists(st.integers(1, 60), min_size=1, max_size=80), st.integers(1, 20), st.booleans())
def test_every_sentence_is_in_one_batch(lengths, size, by_words):
    batches = length_buckets(torch.tensor(lengths), size, by_words, generator())
    assert sorted(torch.cat(batches).tolist()) == list(range(len(lengths)))
    assert all(len(batch) for batch in batches)


@given(st.lists(st.integers(1, 60), min_size=1, max_size=80), st.integers(1, 200))
def test_batches_of_several_sentences_have_at_most_size_words(lengths, size):
    lengths = torch.tensor(lengths)
    for batch in length_buckets(lengths, size, True, generator()):
        assert len(batch) == 1 or len(batch) * lengths[batch].max() <= size


def test_batches_have_sentences_of_similar_length():
    lengths = torch.arange(1, 101).repeat(10)
    batches = length_buckets(lengths, 10, False, generator())
    assert max(int(lengths[batch].max() - lengths[batch].min()) for batch in batches) <= 1


def test_batches_depend_on_the_seed_alone():
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
def test_batches_end_only_where_the_next_sentence_does_not_fit(lengths, size, first):
    lengths.sort()
    batches = split_by_words(torch.arange(len(lengths)), lengths, size, first)
    assert torch.cat(batches).tolist() == list(range(len(lengths)))
    limits = [first] + [size] * len(lengths)
    for limit, batch, following in zip(limits, batches, batches[1:], strict=False):
        assert (len(batch) + 1) * lengths[following[0]] > limit
        assert len(batch) == 1 or len(batch) * lengths[batch[-1]] <= limit
