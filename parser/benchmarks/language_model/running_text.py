"""Texts as one sequence of words, for language models."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path

from parser.benchmarks.tagged_text import read_tagged_text
from parser.treebank.conllu import stream_sentences

END = "</s>"
"""The word after each sentence."""
TREEBANKS = (".conllu", ".conllx", ".conll")
ZIPF_EXPONENT = 1.0
FOLLOWS = 0.6
"""The share of generated words that are determined by the previous word."""
UNKNOWN = 0


def read_words(paths: Iterable[str]) -> list[str]:
    """The lower-cased words of treebanks and of files with sentences of `word|label`.

    Raises ValueError with the line of what is wrong, FileNotFoundError.
    """
    words: list[str] = []
    for path in paths:
        for sentence in _sentences(path):
            words += [word.lower() for word in sentence]
            words.append(END)
    return words


def _sentences(path: str) -> Iterator[Sequence[str]]:
    if path.removesuffix(".gz").endswith(TREEBANKS):
        yield from (sentence.forms for sentence in stream_sentences(path, tree=False))
    else:
        yield from ([word.word for word in sentence] for sentence in read_tagged_text(Path(path)))


def made_words(count: int, vocabulary: int, seed: int) -> list[str]:
    """Words with Zipf-distributed frequencies; each word often has the same successor."""
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


def limited(numbers: Iterable[int], limit: int) -> list[int]:
    """Replace numbers from `limit` on by UNKNOWN."""
    return [number if number < limit else UNKNOWN for number in numbers]
