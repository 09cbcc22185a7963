"""Windows over the pieces of a sentence, for a transformer, which reads texts of bounded length.

A sentence that fits is one window. A longer sentence is divided into windows of whole words that overlap by
half. Each of its words is read from the window in which it is closest to the middle.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING

from parser.networks.settings import TransformerSettings

if TYPE_CHECKING:
    from parser.networks.transformer.tokenizer import PieceTokenizer


def longest_window(
    settings: TransformerSettings, tokenizer: PieceTokenizer, layers: int, pieces: int, longest: int
) -> int:
    """The most pieces of words in a window.

    layers: their number. pieces: number of pieces in the vocabulary. longest: longest text, in pieces, that
    the transformer can read. Raises ValueError if settings, tokenizer and transformer do not fit together.
    """
    if settings.layers > layers:
        raise ValueError(
            f"parser.network.transformer.layers: {settings.layers}, and the transformer has {layers}"
        )
    if tokenizer.largest >= pieces:
        raise ValueError(
            f"parser.network.transformer.model: its tokenizer has a piece {tokenizer.largest:,}, and the "
            f"transformer {pieces:,} pieces: they are not of one model"
        )
    special = len(tokenizer.before) + len(tokenizer.after)
    most = min(settings.max_pieces, longest) - special
    if most < 1:
        raise ValueError(f"parser.network.transformer.max_pieces: at least {special + 1} are needed")
    return most


def spans_of(sizes: Sequence[int], most: int) -> list[tuple[int, int]]:
    """The first word and the end of each window of a sentence.

    sizes: number of pieces in each word. most: limit for a window, and for a word.
    """
    return [(0, len(sizes))] if sum(sizes) <= most else list(_overlapping(sizes, most))


def _overlapping(sizes: Sequence[int], most: int) -> Iterator[tuple[int, int]]:
    """Windows over words of the given sizes; each window begins in the middle of the previous one."""
    begin = 0
    while True:
        end, total = begin, 0
        while end < len(sizes) and total + sizes[end] <= most:
            total += sizes[end]
            end += 1
        yield begin, end
        if end == len(sizes):
            return
        middle, passed = begin, 0
        while passed + sizes[middle] <= total // 2:
            passed += sizes[middle]
            middle += 1
        # At least one word further, and no word is left out.
        begin = min(max(middle, begin + 1), end)


def chosen_windows(spans: Sequence[tuple[int, int]], sizes: Sequence[int]) -> Iterator[int]:
    """For each word, the window with the most pieces on the side of the word with fewer pieces.

    The beginning and the end of the sentence count as far away. sizes: number of pieces in each word.
    """
    starts = list(accumulate(sizes, initial=0))
    far = starts[-1]

    def context(word: int, number: int) -> int:
        begin, end = spans[number]
        before = starts[word] - starts[begin] if begin else far
        after = starts[end] - starts[word + 1] if end < len(sizes) else far
        return min(before, after)

    first = 0
    for word in range(len(sizes)):
        while spans[first][1] <= word:
            first += 1
        end = first
        while end < len(spans) and spans[end][0] <= word:
            end += 1
        yield max(range(first, end), key=partial(context, word))
