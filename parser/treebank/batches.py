"""Batches of sentences of similar length, shuffled anew in each epoch."""

from __future__ import annotations

import torch
from torch import Tensor

SENTENCES_WITHOUT_TRAINING, WORDS_WITHOUT_TRAINING = 64, 20_000
"""Maximum sizes of a batch in a pass that does not train."""


def length_buckets(
    lengths: Tensor, size: int, by_words: bool, generator: torch.Generator, max_batch_words: int | None = None
) -> list[Tensor]:
    """Partition sentences into batches of similar length; return the sentence indices [batch] of each.

    Sentences of equal length are shuffled, and so are the batches.

    lengths: [sentences] in words. size: sentences in a batch or, if `by_words`, words in a batch, padding
    included. A sentence of more words is a batch by itself. max_batch_words: splits each batch further, so
    that it contains at most this many words, padding included. In training these arguments are the settings
    `batch_size`, `batch_unit` and `max_batch_words`.
    """
    shuffled = torch.randperm(len(lengths), generator=generator)
    by_length = shuffled[lengths[shuffled].argsort(stable=True)]
    # The first batch has a random size, so that the boundaries between batches change with the epoch, too.
    first = int(torch.randint(1, size + 1, (), generator=generator))
    if by_words:
        batches = split_by_words(by_length, lengths[by_length].tolist(), size, first)
    else:
        batches = [by_length[:first], *by_length[first:].split(size)]
    batches = [batch for batch in batches if len(batch)]
    if max_batch_words is not None:
        batches = [
            part
            for batch in batches
            for part in split_by_words(batch, lengths[batch].tolist(), max_batch_words)
        ]
    return [batches[index] for index in torch.randperm(len(batches), generator=generator).tolist()]


def batches_by_length(lengths: Tensor) -> list[Tensor]:
    """Like `length_buckets`, but shortest first, for passes over all sentences that change no weights.

    lengths: [sentences] in words.
    """
    return [
        batch
        for rows in lengths.argsort().split(SENTENCES_WITHOUT_TRAINING)
        for batch in split_by_words(rows, lengths[rows].tolist(), WORDS_WITHOUT_TRAINING)
        if len(batch)
    ]


def split_by_words(order: Tensor, lengths: list[int], size: int, first: int | None = None) -> list[Tensor]:
    """Split sentences into batches of at most `size` words, padding included.

    order: [sentences] indices of the sentences. lengths: their lengths, in any order; sorted ones need less
    padding. first: the size of the first batch, if it differs.
    """
    starts, limit, longest = [0], first or size, 0
    for index, length in enumerate(lengths):
        longest = max(longest, length)
        if index > starts[-1] and longest * (index - starts[-1] + 1) > limit:
            starts.append(index)
            limit, longest = size, length
    ends = [*starts[1:], len(order)]
    return [order[start:end] for start, end in zip(starts, ends, strict=True)]


def padding_share(lengths: Tensor) -> float:
    """The fraction of a padded batch that is padding. lengths: [sentences]."""
    padded = len(lengths) * int(lengths.max())
    return 1 - int(lengths.sum()) / padded
