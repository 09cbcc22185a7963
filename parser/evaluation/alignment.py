"""Aligning the words of two segmentations of a text, as in the CoNLL 2018 shared task (Zeman et al. 2018).

Words are aligned if they cover the same characters. The words of a multiword token share its characters:
where one of the segmentations contains such a token, the words of both segmentations are aligned by the
longest common subsequence of their forms.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import NamedTuple

Span = tuple[int, int]
"""The first character and the one after the last, as indices into the text without white space."""


class SegmentedWord(NamedTuple):
    form: str
    span: Span
    """The span of the word's token."""
    is_part: bool
    """Whether the word is a part of a multiword token."""


class _Cursor:
    """A position in the words of a segmentation."""

    def __init__(self, words: Sequence[SegmentedWord]):
        self.words, self.place = words, 0

    @property
    def word(self) -> SegmentedWord | None:
        """The word at this position; None after the last one."""
        return self.words[self.place] if self.place < len(self.words) else None

    @property
    def start(self) -> float:
        return self.word.span[0] if self.word else inf

    def lies_before(self, end: int) -> bool:
        """Whether the word lies before `end`: partly, if it is a part of a token, or else completely."""
        return self.word is not None and (self.start if self.word.is_part else self.word.span[1] - 1) < end

    def passed(self) -> SegmentedWord:
        """The current word; moves to the next position."""
        self.place += 1
        return self.words[self.place - 1]


def align(gold: Sequence[SegmentedWord], found: Sequence[SegmentedWord]) -> dict[int, int]:
    """The gold word of each found word that is aligned, both as indices."""
    first, second = _Cursor(gold), _Cursor(found)
    aligned: dict[int, int] = {}
    while first.word and second.word:
        if first.word.is_part or second.word.is_part:
            region, other = _region_of_multiword_token(first, second)
            pairs = _common_subsequence(
                [gold[number].form.lower() for number in region],
                [found[number].form.lower() for number in other],
            )
            aligned.update((other[its], region[own]) for own, its in pairs)
        elif first.word.span == second.word.span:
            aligned[second.place] = first.place
            first.passed()
            second.passed()
        else:
            (first if first.start <= second.start else second).passed()
    return aligned


def _region_of_multiword_token(first: _Cursor, second: _Cursor) -> tuple[range, range]:
    """The words of both cursors that share the characters of a multiword token or of tokens overlapping it.

    The cursors move past these words. A single word that starts before the token is skipped; as in the scorer
    of the shared task, further such words are not.
    """
    with_token, other = (first, second) if first.word and first.word.is_part else (second, first)
    assert with_token.word
    assert other.word
    end = with_token.word.span[1]
    if not other.word.is_part and other.start < with_token.start:
        other.passed()
    starts = first.place, second.place
    while first.lies_before(end) or second.lies_before(end):
        word = (first if first.start <= second.start else second).passed()
        if word.is_part:
            end = max(end, word.span[1])
    return range(starts[0], first.place), range(starts[1], second.place)


def _common_subsequence(first: Sequence[str], second: Sequence[str]) -> list[tuple[int, int]]:
    """The pairs of indices of a longest common subsequence; if there are several, the first in `second`."""
    lengths = [[0] * (len(second) + 1) for _ in range(len(first) + 1)]  # from two indices to the ends
    for one in reversed(range(len(first))):
        for other in reversed(range(len(second))):
            lengths[one][other] = (
                lengths[one + 1][other + 1] + 1
                if first[one] == second[other]
                else max(lengths[one + 1][other], lengths[one][other + 1])
            )
    pairs, one, other = [], 0, 0
    while one < len(first) and other < len(second):
        if first[one] == second[other]:
            pairs.append((one, other))
            one, other = one + 1, other + 1
        elif lengths[one][other] == lengths[one + 1][other]:
            one += 1
        else:
            other += 1
    return pairs
