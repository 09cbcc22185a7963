"""Texts as one sequence of words, for language models; numbered, and cut into streams and chunks."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from parser.speed.tasks.language_model.network import Text
from parser.speed.tasks.tagged_text import UNKNOWN, read_tagged_text
from parser.treebank.conllu import stream_sentences

END = "</s>"
"""The word after each sentence."""
TREEBANK_SUFFIXES = (".conllu", ".conllx", ".conll")
ZIPF_EXPONENT = 1.0
FOLLOWS = 0.6
"""The share of generated words that are determined by the previous word."""


def read_words(paths: Iterable[str]) -> list[str]:
    """The lower-cased words of treebanks and of files with sentences of `word|label`.

    Raises FileNotFoundError, and ValueError with the line for malformed files.
    """
    words: list[str] = []
    for path in paths:
        for sentence in _sentences(path):
            words += [word.lower() for word in sentence]
            words.append(END)
    return words


def _sentences(path: str) -> Iterator[Sequence[str]]:
    if path.removesuffix(".gz").endswith(TREEBANK_SUFFIXES):
        yield from (sentence.forms for sentence in stream_sentences(path, tree=False))
    else:
        yield from ([word.word for word in sentence] for sentence in read_tagged_text(Path(path)))


def generate_words(count: int, vocabulary: int, seed: int) -> list[str]:
    """Generate words with Zipf-distributed frequencies; each word often has the same successor."""
    draw = random.Random(seed)
    weights = list(accumulate(1 / rank**ZIPF_EXPONENT for rank in range(1, vocabulary + 1)))
    words = list(range(vocabulary))
    successors = draw.choices(words, cum_weights=weights, k=vocabulary)
    row = [0]
    while len(row) < count:
        row.append(
            successors[row[-1]] if draw.random() < FOLLOWS else draw.choices(words, cum_weights=weights)[0]
        )
    return [f"w{word}" for word in row]


def ranks(words: Iterable[str]) -> dict[str, int]:
    """The frequency rank of each word, from 1 on; ties in order of first occurrence."""
    return {word: number for number, (word, _) in enumerate(Counter(words).most_common(), start=1)}


def replace_rare(numbers: Iterable[int], limit: int) -> list[int]:
    """Replace numbers that are not below `limit` by UNKNOWN."""
    return [number if number < limit else UNKNOWN for number in numbers]


class Corpus(NamedTuple):
    """The words as inputs and as targets, whose vocabularies can differ in size."""

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


def split_corpus(
    words: Sequence[str],
    sizes: tuple[int, int],
    held_out: int,
    most: int | None,
    device: torch.device,
) -> Corpora:
    """sizes: the sizes of the vocabularies of inputs and targets, by frequency in the training words.

    held_out: the number of words at the end; most: the maximum number of training words, from the beginning.
    Raises ValueError if none are left.
    """
    until = len(words) - held_out
    if until < 2:
        raise ValueError(f"{held_out} of {len(words)} words are held out: none is left")
    trained, rest = words[: min(until, most or until)], words[until:]
    found = ranks(trained)

    def corpus(part: Sequence[str]) -> Corpus:
        numbers = [found.get(word, UNKNOWN) for word in part]
        return Corpus(*(torch.tensor(replace_rare(numbers, size), device=device) for size in sizes))

    return Corpora(corpus(trained), corpus(rest))


def unigram_perplexity(trained: Corpus, chunks: Sequence[Text], symbols: int) -> float:
    """The perplexity of the chunks' targets, by add-one smoothed frequencies in the training text."""
    counts = torch.bincount(trained.targets, minlength=symbols) + 1  # [symbols]
    shares = (counts / counts.sum()).log()  # [symbols]
    targets = torch.cat([chunk.targets.flatten() for chunk in chunks])  # [words]
    return math.exp(-shares[targets].mean().item())
