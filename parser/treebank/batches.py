"""Sentences of like length together, in an order that differs from epoch to epoch."""

from __future__ import annotations

import torch
from torch import Tensor


def length_buckets(
    lengths: Tensor, size: int, by_words: bool, generator: torch.Generator, max_batch_words: int | None = None
) -> list[Tensor]:
    """Batches of sentence numbers, each sentence in one batch.

    lengths: [sentences] in words. size: of a batch, in sentences or, if `by_words`, in words, padding
    included (a longer sentence is a batch of its own). max_batch_words: bounds the words besides `size`.
    Sentences of equal length are shuffled, and so are the batches.
    """
    shuffled = torch.randperm(len(lengths), generator=generator)
    by_length = shuffled[lengths[shuffled].argsort(stable=True)]
    # The first batch takes a random share of the size, so that batches' borders move between epochs too.
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
    return [batches[place] for place in torch.randperm(len(batches), generator=generator).tolist()]


def split_by_words(order: Tensor, lengths: list[int], size: int, first: int | None = None) -> list[Tensor]:
    """Cut where one sentence more, with the padding it brings, would exceed the size.

    order: [sentences] their numbers, and lengths: their lengths, sorted up or down; first: another size for
    the first batch.
    """
    starts, limit, longest = [0], first or size, 0
    for place, length in enumerate(lengths):
        longest = max(longest, length)
        if place > starts[-1] and longest * (place - starts[-1] + 1) > limit:
            starts.append(place)
            limit, longest = size, length
    ends = [*starts[1:], len(order)]
    return [order[start:end] for start, end in zip(starts, ends, strict=True)]


def padding_share(lengths: Tensor) -> float:
    """Share of the elements of a padded batch of these lengths [sentences] that are padding."""
    padded = len(lengths) * int(lengths.max())
    return 1 - int(lengths.sum()) / padded
