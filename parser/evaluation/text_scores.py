"""Scores of parsed raw text, as in CoNLL 2018: its sentences and words differ from the gold ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any, cast

from parser.enhanced.graph import EdgeCounts
from parser.evaluation.measures import TEXT_MEASURES, TextMeasure
from parser.evaluation.parsed_text import ROOT, ParsedText, SegmentedWord
from parser.evaluation.scores import CONTENT_LABELS, right_measures
from parser.evaluation.segmentation import Segmentation, segmentation_errors

NOT_ALIGNED = -2
CHARACTERS_SHOWN = 30


class OtherTextError(ValueError):
    """The parsed text is not that of the gold trees."""


@dataclass(frozen=True)
class TextScores:
    right: dict[TextMeasure, int]
    gold: dict[TextMeasure, int]
    """The total in the gold trees."""
    parsed: dict[TextMeasure, int]
    """The total in the parsed text."""
    segmentation: Segmentation
    enhanced: EdgeCounts

    def percent(self, measure: TextMeasure) -> float:
        """The F1 score in percent."""
        total = self.gold[measure] + self.parsed[measure]
        return 200 * self.right[measure] / total if total else 0.0

    def as_dict(self, examples: bool = False) -> dict[str, Any]:
        """examples: whether errors in the segmentation have examples."""
        return {
            **{measure: self.percent(measure) for measure in TEXT_MEASURES},
            **({"elas": self.enhanced.elas, "eulas": self.enhanced.eulas} if self.enhanced.gold else {}),
            "segmentation": self.segmentation.as_dict(examples),
        }


def score_text(gold: ParsedText, parsed: ParsedText) -> TextScores:
    """Score a parsed text. Raises OtherTextError if the two texts do not have the same characters."""
    texts = "".join(gold.characters), "".join(parsed.characters)
    if texts[0] != texts[1]:
        differing = (at for at, (one, other) in enumerate(zip(*texts, strict=False)) if one != other)
        start = next(differing, min(map(len, texts)))
        token = sum(end <= start for _, end in gold.tokens) + 1
        rests = (text[start : start + CHARACTERS_SHOWN] for text in texts)
        here, there = (f"has {rest!r}" if rest else "ends" for rest in rests)
        raise OtherTextError(
            f"not the text of the treebank: at token {token:,} of the treebank, which "
            f"{here}, the text {there} (without white space)"
        )
    right: dict[TextMeasure, int] = dict.fromkeys(TEXT_MEASURES, 0)
    right["tokens"] = len({*gold.tokens} & {*parsed.tokens})
    right["sentences"] = len({*gold.sentences} & {*parsed.sentences})
    aligned = align(gold.segments, parsed.segments)
    for number, gold_number in aligned.items():
        word, gold_word = parsed.words[number], gold.words[gold_number]
        head = ROOT if word.head == ROOT else aligned.get(word.head, NOT_ALIGNED)
        function_words = _function_words(parsed, number, lambda word: aligned.get(word, NOT_ALIGNED))
        same_function_words = function_words == _function_words(gold, gold_number, lambda word: word)
        right["words"] += 1
        for measure, is_right in right_measures(
            gold_word, word, gold_word.head == head, same_function_words
        ).items():
            right[cast("TextMeasure", measure)] += is_right
    errors = segmentation_errors(gold, parsed)
    return TextScores(right, _totals(gold), _totals(parsed), errors, _enhanced(gold, parsed, aligned))


def _enhanced(gold: ParsedText, parsed: ParsedText, aligned: Mapping[int, int]) -> EdgeCounts:
    """The edges of both graphs; none if either text has none. aligned: see `align`."""
    if not any(gold.edges) or not any(parsed.edges):
        return EdgeCounts()
    heads = {**aligned, ROOT: ROOT}
    with_gold_words: list[set[tuple[int, str]]] = [set() for _ in gold.edges]
    for number, gold_number in aligned.items():
        with_gold_words[gold_number] = {
            (heads.get(head, NOT_ALIGNED), label) for head, label in parsed.edges[number]
        }
    counts = EdgeCounts.of(gold.edges, with_gold_words)
    return replace(counts, parsed=sum(map(len, parsed.edges)))


def _totals(text: ParsedText) -> dict[TextMeasure, int]:
    totals: dict[TextMeasure, int] = dict.fromkeys(TEXT_MEASURES, len(text.words))
    content_words = sum(word.label in CONTENT_LABELS for word in text.words)
    totals |= {"tokens": len(text.tokens), "sentences": len(text.sentences)}
    return totals | {"clas": content_words, "mlas": content_words, "blex": content_words}


def _function_words(
    text: ParsedText, number: int, gold_of: Callable[[int], int]
) -> list[tuple[int, str, str, str]]:
    """The properties of a word's function words that MLAS compares. gold_of: maps a word to its gold word."""
    words = [(gold_of(one), text.words[one]) for one in text.function_words.get(number, ())]
    return [(gold, word.label, word.upos, word.features) for gold, word in words]


class _Cursor:
    """A position in the words of a segmentation."""

    def __init__(self, words: Sequence[SegmentedWord]):
        self.words, self.index = words, 0

    @property
    def word(self) -> SegmentedWord | None:
        """The word at this position; None after the last one."""
        return self.words[self.index] if self.index < len(self.words) else None

    @property
    def start(self) -> float:
        return self.word.span[0] if self.word else inf

    def lies_before(self, end: int) -> bool:
        """Whether the word lies before `end`: partly, if it is a part of a token, or else completely."""
        return self.word is not None and (self.start if self.word.is_part else self.word.span[1] - 1) < end

    def passed(self) -> SegmentedWord:
        """The current word; moves to the next position."""
        self.index += 1
        return self.words[self.index - 1]


def align(gold: Sequence[SegmentedWord], parsed: Sequence[SegmentedWord]) -> dict[int, int]:
    """The gold word of each parsed word that is aligned, both as indices (Zeman et al. 2018).

    Words are aligned if they cover the same characters. The words of a multiword token share its characters:
    where one of the segmentations contains such a token, the words of both segmentations are aligned by the
    longest common subsequence of their forms.
    """
    first, second = _Cursor(gold), _Cursor(parsed)
    aligned: dict[int, int] = {}
    while first.word and second.word:
        if first.word.is_part or second.word.is_part:
            region, other = _region_of_multiword_token(first, second)
            pairs = _common_subsequence(
                [gold[number].form.lower() for number in region],
                [parsed[number].form.lower() for number in other],
            )
            aligned.update((other[second_index], region[first_index]) for first_index, second_index in pairs)
        elif first.word.span == second.word.span:
            aligned[second.index] = first.index
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
    starts = first.index, second.index
    while first.lies_before(end) or second.lies_before(end):
        word = (first if first.start <= second.start else second).passed()
        if word.is_part:
            end = max(end, word.span[1])
    return range(starts[0], first.index), range(starts[1], second.index)


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
