"""Where the sentences, tokens and words that were found in a text differ from the gold ones."""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from parser.evaluation.parsed_text import ParsedText, Span
from parser.evaluation.tally import Example, Tally

MISSED_END, FALSE_END = "missed sentence end", "false sentence end"
AFTER_STOP, AFTER_MARK, WITHOUT_MARK = "after a full stop", "after another mark", "without a mark"
JOINED, DIVIDED = "tokens joined", "token divided"
MISSED_WORDS, FALSE_WORDS = "multiword token not divided", "word divided"
OTHER_WORDS = "multiword token divided into other words"
KINDS = (
    *(
        f"{kind} {place}"
        for kind in (MISSED_END, FALSE_END)
        for place in (AFTER_STOP, AFTER_MARK, WITHOUT_MARK)
    ),
    *(JOINED, DIVIDED, MISSED_WORDS, FALSE_WORDS, OTHER_WORDS),
)
CONTEXT = 3
"""Tokens shown on each side of a boundary."""
FULL_STOP, BOUNDARY = ".", "|"


@dataclass
class Segmentation:
    errors: Tally = field(default_factory=Tally)
    """The kind of each error, one of `KINDS`."""
    possible: Counter[str] = field(default_factory=Counter)
    """For each kind, how many errors were possible: of what can be missed, all in the gold sentences; of what
    can be false, all in the parsed ones; of what can be divided in another way, all that both divide.
    Multiword tokens count only if the other side has the same token. The end of the text does not count.
    """

    def rows(self) -> Iterator[tuple[str, int, int, list[Example]]]:
        """The kinds that the text can have, with the number of errors, what it is out of, and examples."""
        for kind in KINDS:
            if self.possible[kind]:
                examples = self.errors.examples.get((kind,), [])
                yield kind, self.errors.counts[(kind,)], self.possible[kind], examples

    def as_dict(self, examples: bool = False) -> dict[str, Any]:
        """examples: whether to include them."""
        return {
            kind: {
                "errors": errors,
                "of": of,
                **({"examples": [one._asdict() for one in first]} if examples else {}),
            }
            for kind, errors, of, first in self.rows()
        }


def segmentation_errors(gold: ParsedText, parsed: ParsedText) -> Segmentation:
    """The errors in the segmentation of a text whose characters are those of the gold sentences."""
    result, context = Segmentation(), _Context(gold)
    text = "".join(gold.characters)

    def count(kind: str, is_error: bool, example: Callable[[], Example]) -> None:
        result.possible[kind] += 1
        if is_error:
            result.errors.add((kind,), example())

    def inner(spans: Sequence[Span]) -> set[int]:
        return {end for _, end in spans if 0 < end < len(text)}

    ends, parsed_ends = inner(gold.sentences), inner(parsed.sentences)
    for kind, own, other in ((MISSED_END, ends, parsed_ends), (FALSE_END, parsed_ends, ends)):
        for end in sorted(own):
            count(f"{kind} {_place(text[end - 1])}", end not in other, partial(context.at, end))
    ends, parsed_ends = inner(gold.tokens), inner(parsed.tokens)
    for kind, own, other in ((JOINED, ends, parsed_ends), (DIVIDED, parsed_ends, ends)):
        for end in sorted(own):
            count(kind, end not in other, partial(context.at, end))
    gold_words, parsed_words = _words_of_tokens(gold), _words_of_tokens(parsed)
    for span, words in gold_words.items():
        found = parsed_words.get(span, [])
        example = partial(context.of_words, span, words, found)
        if found and len(words) > 1:
            count(MISSED_WORDS, len(found) == 1, example)
        if len(found) > 1:
            count(FALSE_WORDS, len(words) == 1, example)
        if len(found) > 1 and len(words) > 1:
            # As in the scores, capital letters do not matter.
            count(OTHER_WORDS, [*map(str.lower, words)] != [*map(str.lower, found)], example)
    return result


def _place(character: str) -> str:
    """Where a sentence ends whose last character this is."""
    if character == FULL_STOP:
        return AFTER_STOP
    return AFTER_MARK if unicodedata.category(character).startswith("P") else WITHOUT_MARK


def _words_of_tokens(text: ParsedText) -> dict[Span, list[str]]:
    """The forms of the words of each token."""
    words: defaultdict[Span, list[str]] = defaultdict(list)
    for word in text.segments:
        words[word.span].append(word.form)
    return dict(words)


class _Context:
    """Writes examples of errors with the gold tokens around them."""

    def __init__(self, gold: ParsedText):
        self._gold = gold
        self._sentence_starts = [start for start, _ in gold.sentences]
        self._token_starts = [start for start, _ in gold.tokens]

    def at(self, end: int) -> Example:
        """The boundary after the character before `end`, with the tokens on both sides."""
        token = bisect_right(self._token_starts, end - 1) - 1
        forms, inside = self._gold.characters, end - self._token_starts[token]
        first = forms[max(0, token - CONTEXT + 1) : token]
        rest = list(filter(None, [forms[token][inside:], *forms[token + 1 : token + 1 + CONTEXT]]))[:CONTEXT]
        return self._example(end, " ".join([*first, forms[token][:inside]]) + BOUNDARY + " ".join(rest))

    def of_words(self, span: Span, gold: Sequence[str], parsed: Sequence[str]) -> Example:
        """The gold and the parsed words of a token."""
        return self._example(span[1], f"{' '.join(gold)} → {' '.join(parsed)}")

    def _example(self, end: int, text: str) -> Example:
        sentence = bisect_right(self._sentence_starts, end - 1) - 1
        return Example(text, sentence, *self._gold.origins[sentence])
