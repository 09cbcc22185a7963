"""Words as the pieces that a transformer's tokenizer divides them into."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

import torch
from tokenizers import Tokenizer

from parser.treebank.ragged import Ragged
from parser.treebank.sentence import Sentence
from parser.treebank.tokens import Tokens


class PieceTokenizer:
    """Each word is divided alone, as if it began a text, so that equal words have equal pieces.

    The special pieces that begin and end a text are not among those of its words.
    """

    def __init__(self, content: str):
        """content: of a `tokenizer.json`. Raises ValueError if it is broken."""
        try:
            self._tokenizer = Tokenizer.from_str(content)
            self._tokenizer.no_truncation()
            self._tokenizer.no_padding()
            self.before, self.after = _special(self._tokenizer)
            self._unknown = _unknown(content, self._tokenizer)
        except Exception as error:  # the library raises no narrower one
            raise ValueError(f"the transformer's tokenizer is broken: {error}") from None
        self.size = self._tokenizer.get_vocab_size()
        """Number of different pieces."""

    def pieces(self, words: Sequence[str]) -> list[list[int]]:
        """The pieces of each word, at least one: the unknown piece for words of which nothing is left."""
        # Lone surrogates are no text.
        texts = [[word.encode(errors="replace").decode()] for word in words]
        found = self._tokenizer.encode_batch(texts, is_pretokenized=True, add_special_tokens=False)
        return [each.ids or [self._unknown] for each in found]

    def added(self, tokens: Tokens, sentences: Sequence[Sentence]) -> Tokens:
        """See `WordSource`."""
        words = list(chain.from_iterable(sentence.forms for sentence in sentences))
        distinct = list(dict.fromkeys(words))
        known = dict(zip(distinct, self.pieces(distinct), strict=True))
        found = [known[word] for word in words]
        values = torch.tensor(list(chain.from_iterable(found)), dtype=torch.long)
        return replace(tokens, pieces=Ragged(values, torch.tensor(list(map(len, found)), dtype=torch.long)))


def _special(tokenizer: Tokenizer) -> tuple[list[int], list[int]]:
    """The pieces that stand before and behind a text."""
    own = tokenizer.encode(["a"], is_pretokenized=True, add_special_tokens=False).ids
    whole = tokenizer.encode(["a"], is_pretokenized=True).ids
    start = next(i for i in range(len(whole) - len(own) + 1) if whole[i : i + len(own)] == own)
    return whole[:start], whole[start + len(own) :]


def _unknown(content: str, tokenizer: Tokenizer) -> int:
    """The piece that stands for what has none; for tokenizers of bytes, the last special one."""
    model = json.loads(content)["model"]
    if isinstance(number := model.get("unk_id"), int):
        return number
    number = tokenizer.token_to_id(model.get("unk_token") or "")
    return number if number is not None else (_special(tokenizer)[1] or [0])[-1]
