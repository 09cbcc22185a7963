"""A text as numbers, cut into streams and chunks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from parser.benchmarks.language_model.network import Text
from parser.benchmarks.language_model.running_text import UNKNOWN, limited, ranks


class Corpus(NamedTuple):
    """The words as inputs and as targets, which may have vocabularies of different sizes."""

    inputs: Tensor
    """[words]"""
    targets: Tensor
    """[words]"""

    def chunks(self, frames: int, streams: int) -> list[Text]:
        """Contiguous streams of equal length, the longest that can be cut into whole chunks."""
        number = (len(self.inputs) - 1) // (frames * streams)
        length = number * frames
        if not number:
            raise ValueError(
                f"{len(self.inputs)} words are too few for {frames} frames of {streams} streams: "
                "use more `words` or fewer `frames`"
            )
        inputs = self.inputs[: length * streams].view(streams, length).T.contiguous()  # [length, streams]
        targets = self.targets[1 : length * streams + 1].view(streams, length).T.contiguous()
        return [Text(*both) for both in zip(inputs.split(frames), targets.split(frames), strict=True)]


class Corpora(NamedTuple):
    trained: Corpus
    held_out: Corpus


def corpora(
    words: Sequence[str],
    sizes: tuple[int, int],
    held_out: int,
    most: int | None,
    device: torch.device,
) -> Corpora:
    """sizes: of the vocabularies of inputs and targets, by frequency in the training words.

    held_out: the number of words at the end; most: training words at most, from the beginning. Raises
    ValueError if none are left.
    """
    until = len(words) - held_out
    if until < 2:
        raise ValueError(f"{held_out} of {len(words)} words are held out: none is left")
    trained, rest = words[: min(until, most or until)], words[until:]
    found = ranks(trained)

    def corpus(part: Sequence[str]) -> Corpus:
        numbers = [found.get(word, UNKNOWN) for word in part]
        return Corpus(*(torch.tensor(limited(numbers, size), device=device) for size in sizes))

    return Corpora(corpus(trained), corpus(rest))


def unigram_perplexity(trained: Corpus, chunks: Sequence[Text], symbols: int) -> float:
    """Of the chunks' targets, by add-one smoothed frequencies in the training text."""
    counts = torch.bincount(trained.targets, minlength=symbols) + 1  # [symbols]
    shares = (counts / counts.sum()).log()  # [symbols]
    targets = torch.cat([chunk.targets.flatten() for chunk in chunks])  # [words]
    return math.exp(-shares[targets].mean().item())
