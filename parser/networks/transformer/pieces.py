"""Pieces of words as tensors, and arranging the windows of sentences for a transformer. Windows of similar
length are read together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

import torch
from torch import Tensor

from parser.batching.ragged import Ragged
from parser.networks.transformer.tokenizer import PieceTokenizer
from parser.networks.transformer.windows import chosen_windows, spans_of
from parser.treebank.sentence import Sentence
from parser.treebank.tokens import Tokens


@dataclass(frozen=True)
class PieceSource:
    """See `WordSource`."""

    tokenizer: PieceTokenizer

    def added(self, tokens: Tokens, sentences: Sequence[Sentence]) -> Tokens:
        """See `WordSource`."""
        of_words = self.tokenizer.of_words(chain.from_iterable(sentence.forms for sentence in sentences))
        values = torch.tensor(list(chain.from_iterable(of_words)), dtype=torch.long)
        lengths = torch.tensor(list(map(len, of_words)), dtype=torch.long)
        return replace(tokens, pieces=Ragged(values, lengths))


PIECES_TOGETHER = 8192
"""Maximum number of pieces in windows that are read together, padding included."""
PADDING_IN_ATTENTION, PADDING_ON_CPU, PADDING_ON_GPU = 64, 256, 1024
"""Maximum padding of windows that are read together. More padding takes longer than another call; on a GPU, a
call is many launches. The first is for packed windows, of which only attention is computed together."""


def padding_together(device: torch.device, packs: bool) -> int:
    if packs:
        return PADDING_IN_ATTENTION
    return PADDING_ON_CPU if device.type == "cpu" else PADDING_ON_GPU


class Together(NamedTuple):
    """Windows that are read together. All tensors are on the host."""

    first: Tensor
    """[windows] The first piece of each window, by its number in the batch."""
    counts: Tensor
    """[windows] Number of pieces in each window."""
    length: int
    """Number of pieces in the longest window."""
    words: Ragged
    """For each word read from these windows, the positions of its pieces, as window * length + position."""


@dataclass(frozen=True)
class Windows:
    together: list[Together]
    place_of_word: Tensor
    """[words] The position of each word in the concatenated words of all groups."""

    @classmethod
    def of(
        cls,
        tokens: Tokens,
        most_pieces: int,
        most_padding: int = PADDING_ON_CPU,
        pieces_together: int = PIECES_TOGETHER,
    ) -> Windows:
        """Arrange the pieces of sentences in windows.

        most_pieces: limit for a window; of a word with more pieces, only the first ones are read.
        most_padding, pieces_together: limits for windows that are read together.
        """
        assert tokens.pieces
        starts, counts = tokens.pieces.offsets, tokens.pieces.lengths.clamp(max=most_pieces)
        first_words, end_words, window_of_word = _divide(tokens, most_pieces)
        ends = starts[end_words - 1] + counts[end_words - 1]
        sizes = (ends - starts[first_words]).clamp(max=most_pieces)  # [windows]
        order = sizes.argsort(stable=True)
        word_order = order.argsort()[window_of_word].argsort(stable=True)
        words_in_window = torch.bincount(window_of_word, minlength=len(sizes))
        together, start_word = [], 0
        for rows in _groups(order, sizes.tolist(), pieces_together, most_padding):
            length, end_word = int(sizes[rows[-1]]), start_word + int(words_in_window[rows].sum())
            words = word_order[start_word:end_word]
            row = torch.arange(len(rows)).repeat_interleave(words_in_window[rows])
            first = starts[first_words[rows]]
            start = row * length + starts[words] - first[row]
            counts_of_words = counts[words]
            positions = Ragged(torch.empty(int(counts_of_words.sum())), counts_of_words).position_in_row()
            pieces_of_words = Ragged(start.repeat_interleave(counts_of_words) + positions, counts_of_words)
            together.append(Together(first, sizes[rows], length, pieces_of_words))
            start_word = end_word
        return cls(together, word_order.argsort())


def rows_of(groups: Iterable[Together]) -> Iterator[list[Together]]:
    """Groups that are packed into one row, of at most `PIECES_TOGETHER` pieces."""
    row: list[Together] = []
    pieces = 0
    for group in groups:
        own = int(group.counts.sum())
        if row and pieces + own > PIECES_TOGETHER:
            yield row
            row, pieces = [], 0
        row.append(group)
        pieces += own
    yield row


def _groups(order: Tensor, sizes: Sequence[int], most: int, most_padding: int) -> Iterator[Tensor]:
    """Split windows, the shortest first, into groups with bounded numbers of pieces and padding.

    sizes: number of pieces in each window. most: maximum number in a group, padding included.
    """
    start = pieces = 0
    for end, number in enumerate(order.tolist()):
        padded = (end + 1 - start) * sizes[number]
        if end > start and padded > min(most, pieces + sizes[number] + most_padding):
            yield order[start:end]
            start, pieces = end, 0
        pieces += sizes[number]
    yield order[start:]


def _divide(tokens: Tokens, most: int) -> tuple[Tensor, Tensor, Tensor]:
    """The first word and the end of each window, [windows] each, and the window of each word, [words]."""
    assert tokens.pieces
    first = tokens.numbers.offsets
    counts = tokens.pieces.lengths.clamp(max=most)
    totals = torch.zeros(len(tokens), dtype=torch.long).index_add_(0, tokens.numbers.row_of_element(), counts)
    if not (totals > most).any():
        return first, first + tokens.lengths, tokens.numbers.row_of_element()
    firsts: list[int] = []
    ends: list[int] = []
    chosen: list[int] = []
    for start, length in zip(first.tolist(), tokens.lengths.tolist(), strict=True):
        sizes = counts[start : start + length].tolist()
        spans = spans_of(sizes, most)
        chosen += (len(firsts) + number for number in chosen_windows(spans, sizes))
        firsts += (start + begin for begin, _ in spans)
        ends += (start + end for _, end in spans)
    return torch.tensor(firsts), torch.tensor(ends), torch.tensor(chosen)
