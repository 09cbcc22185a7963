"""A text as numbers, cut into streams and these into chunks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from parser.networks.language_model import Text, unigram_perplexity
from parser.treebank.running_text import limited, ranks


class Corpus(NamedTuple):
    """Words, and the same words as what comes next: the two may tell more or fewer of them apart."""

    inputs: Tensor
    """[words]"""
    targets: Tensor
    """[words]"""

    def part(self, begin: int, end: int) -> Corpus:
        return Corpus(self.inputs[begin:end], self.targets[begin:end])

    def chunks(self, frames: int, streams: int) -> list[Text]:
        """Streams that lie side by side in the text, as long as they can be with whole chunks."""
        number = (len(self.inputs) - 1) // (frames * streams)
        length = number * frames
        if not number:
            raise ValueError(f"{len(self.inputs)} words are too few for {frames} frames of {streams} streams")
        inputs = self.inputs[: length * streams].view(streams, length).T.contiguous()  # [length, streams]
        targets = self.targets[1 : length * streams + 1].view(streams, length).T.contiguous()
        return [Text(*both) for both in zip(inputs.split(frames), targets.split(frames), strict=True)]


class Corpora(NamedTuple):
    trained: Corpus
    held_out: Corpus
    unigram_perplexity: float
    """Of the held-out words, by how often they are in the others."""


def corpora(
    words: Sequence[str],
    sizes: tuple[int, int],
    held_out: int,
    most: int | None,
    device: torch.device,
) -> Corpora:
    """sizes: words that are told apart, as inputs and as targets. held_out: words at the end, one at least.

    most: words to train on, from the beginning. Raises ValueError for too few words.
    """
    until = len(words) - held_out
    if until < 2:
        raise ValueError(f"{held_out} of {len(words)} words are held out: none is left")
    numbers = ranks(words)
    whole = Corpus(*(torch.tensor(limited(numbers, size), device=device) for size in sizes))
    trained = whole.part(0, min(until, most or until))
    rest = whole.part(until, len(words))
    perplexity = unigram_perplexity(trained.targets.tolist(), rest.targets.tolist(), sizes[1])
    return Corpora(trained, rest, perplexity)
