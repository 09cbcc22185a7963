"""The words of multiword tokens, as in a treebank: by the whole token, or else by its longest known end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import accumulate, takewhile
from operator import eq

Words = tuple[str, ...]
MOST_WORDS = 64
"""Of a multiword token. Treebanks contain up to about ten."""


class MultiwordTokens:
    def __init__(self, words: Mapping[str, Words], endings: Mapping[str, Words]):
        """words: of whole tokens. endings: what follows the letters that a token and its first word share, as
        in `n't`: the rest of the first word, and the other words. All in small letters.
        """
        self.words, self.endings = dict(words), dict(endings)

    @classmethod
    def of(cls, tokens: Iterable[tuple[str, Words]]) -> MultiwordTokens:
        """The most frequent words of each token and ending. tokens: multiword tokens with their words."""
        of_tokens: dict[str, Counter[Words]] = {}
        of_endings: dict[str, Counter[Words]] = {}
        for token, words in tokens:
            if len(words) > MOST_WORDS:
                continue
            token, words = token.lower(), tuple(map(str.lower, words))
            of_tokens.setdefault(token, Counter())[words] += 1
            # Of a token that its first word begins with, nothing is left.
            if 0 < (shared := _shared(token, words[0])) < len(token):
                ending = words[0][shared:], *words[1:]
                of_endings.setdefault(token[shared:], Counter())[ending] += 1
        whole, endings = (
            {key: _most_frequent(counts) for key, counts in each.items()} for each in (of_tokens, of_endings)
        )
        return cls(whole, endings)

    def words_of(self, token: str) -> Words:
        """The words of a token; the token itself if nothing is known of it."""
        small = token.lower()
        if len(small) != len(token):  # as of `İ`
            return (token,)
        words = self.words.get(small)
        if words is None:
            start = next((start for start in range(1, len(small)) if small[start:] in self.endings), None)
            if start is None:
                return (token,)
            rest, *others = self.endings[small[start:]]
            words = small[:start] + rest, *others
        return _with_case(token, words)


def _shared(one: str, other: str) -> int:
    """The number of letters with which both begin."""
    return sum(takewhile(bool, map(eq, one, other)))


def _most_frequent(counts: Counter[Words]) -> Words:
    return min(counts, key=lambda words: (-counts[words], words))


def _with_case(token: str, words: Words) -> Words:
    """The words with the letters that they share with the token; in capitals if it is in capitals."""
    if "".join(words) == token.lower():
        ends = accumulate(map(len, words))
        return tuple(token[end - len(word) : end] for word, end in zip(words, ends, strict=True))
    if token.isupper() and len(token) > 1:
        return tuple(map(str.upper, words))
    shared = _shared(token.lower(), words[0])
    return token[:shared] + words[0][shared:], *words[1:]
