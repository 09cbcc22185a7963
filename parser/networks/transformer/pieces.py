"""Pieces of words: dividing words with a transformer's tokenizer, and arranging the pieces in windows for a
transformer, which reads texts of bounded length.

A sentence that fits is one window. A longer sentence is divided into windows of whole words that overlap by
half. Each of its words is read from the window in which it is closest to the middle. Windows of similar
length are read together.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, chain
from typing import Any, NamedTuple

import torch
from tokenizers import Tokenizer
from torch import Tensor

from parser.batching.ragged import Ragged
from parser.treebank.sentence import Sentence
from parser.treebank.tokens import Tokens


class PieceTokenizer:
    """Divides each word by itself, as if preceded by a blank, so that equal words get equal pieces.

    The special pieces at the beginning and the end of a text do not belong to any word.
    """

    def __init__(self, content: str):
        """content: the content of a `tokenizer.json`. Raises ValueError if it is broken."""
        try:
            self._tokenizer = Tokenizer.from_str(content)
            self._tokenizer.no_truncation()
            self._tokenizer.no_padding()
            self.before, self.after = _special(self._tokenizer)
            # From here on, a word such as [SEP] is text.
            self._tokenizer.encode_special_tokens = True
            told = json.loads(content)
            self._blank = " " if _continues_words(told["pre_tokenizer"]) else ""
            self._unknown = _unknown(told["model"], self._tokenizer, self.after)
            decoder = self._tokenizer.get_added_tokens_decoder()
            self._special = {number for number, piece in decoder.items() if piece.special}
            self.largest: int = max(self._tokenizer.get_vocab().values())
            """The largest number of a piece."""
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a panic of the library is not an `Exception`
            raise ValueError(f"the transformer's tokenizer is broken: {error}") from None

    def pieces(self, words: Sequence[str]) -> list[list[int]]:
        """The pieces of each word, at least one: the unknown piece for words of which nothing is left."""
        # Lone surrogates are not valid text.
        texts = [[self._blank + word.encode(errors="replace").decode()] for word in words]
        encoded = self._tokenizer.encode_batch(texts, is_pretokenized=True, add_special_tokens=False)
        # Some tokenizers find the special pieces in text, too.
        return [
            [self._unknown if piece in self._special else piece for piece in each.ids] or [self._unknown]
            for each in encoded
        ]

    def added(self, tokens: Tokens, sentences: Sequence[Sentence]) -> Tokens:
        """See `WordSource`."""
        words = list(chain.from_iterable(sentence.forms for sentence in sentences))
        distinct = list(dict.fromkeys(words))
        known = dict(zip(distinct, self.pieces(distinct), strict=True))
        pieces_of_words = [known[word] for word in words]
        values = torch.tensor(list(chain.from_iterable(pieces_of_words)), dtype=torch.long)
        return replace(
            tokens, pieces=Ragged(values, torch.tensor(list(map(len, pieces_of_words)), dtype=torch.long))
        )


def _special(tokenizer: Tokenizer) -> tuple[list[int], list[int]]:
    """The special pieces before and after a text."""
    inner = tokenizer.encode(["a"], is_pretokenized=True, add_special_tokens=False).ids
    whole = tokenizer.encode(["a"], is_pretokenized=True).ids
    start = next(i for i in range(len(whole) - len(inner) + 1) if whole[i : i + len(inner)] == inner)
    return whole[:start], whole[start + len(inner) :]


def _continues_words(pre_tokenizer: Any) -> bool:
    """Whether a word without a preceding blank is treated as the rest of a word, as in RoBERTa."""
    if not isinstance(pre_tokenizer, dict):
        return False
    if pre_tokenizer.get("type") == "Sequence":
        return any(map(_continues_words, pre_tokenizer["pretokenizers"]))
    return pre_tokenizer.get("type") == "ByteLevel" and not pre_tokenizer["add_prefix_space"]


def _unknown(model: dict[str, Any], tokenizer: Tokenizer, after: Sequence[int]) -> int:
    """The unknown piece; for byte-level tokenizers, which have no such piece, the last special one."""
    if isinstance(number := model.get("unk_id"), int):
        return number
    number = tokenizer.token_to_id(model.get("unk_token") or "")
    return number if number is not None else [0, *after][-1]


PIECES_TOGETHER = 8192
"""Maximum number of pieces in windows that are read together, padding included."""
PADDING_ON_CPU, PADDING_ON_GPU = 256, 1024
"""Maximum padding of windows that are read together. More padding takes longer than another call; on a GPU, a
call is many launches."""


def padding_together(device: torch.device) -> int:
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
    for start, length, total in zip(first.tolist(), tokens.lengths.tolist(), totals.tolist(), strict=True):
        sizes = counts[start : start + length].tolist()
        spans = [(0, length)] if total <= most else list(_overlapping(sizes, most))
        chosen += (len(firsts) + number for number in _chosen(spans, sizes))
        firsts += (start + begin for begin, _ in spans)
        ends += (start + end for _, end in spans)
    return torch.tensor(firsts), torch.tensor(ends), torch.tensor(chosen)


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


def _chosen(spans: Sequence[tuple[int, int]], sizes: Sequence[int]) -> Iterator[int]:
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
