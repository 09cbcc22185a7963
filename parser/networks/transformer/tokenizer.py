"""Dividing words into pieces with the tokenizer of a transformer."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from tokenizers import Tokenizer


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

    def of_words(self, words: Iterable[str]) -> list[list[int]]:
        """Like `pieces`, but equal words are divided once."""
        words = list(words)
        distinct = list(dict.fromkeys(words))
        known = dict(zip(distinct, self.pieces(distinct), strict=True))
        return [known[word] for word in words]


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
