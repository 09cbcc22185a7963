"""Reading long paragraphs in windows: while a tokenizer written in C runs, no other thread of Python does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from parser.treebank.text.sentences import TokenizedSentence

CUTS = "\n", " "


def in_windows(
    paragraph: str, offset: int, width: int, divide: Callable[[str, int], Iterator[TokenizedSentence]]
) -> Iterator[TokenizedSentence]:
    """Yield the sentences of a paragraph. `divide` reads at most twice `width` characters at a time.

    The last sentence of a window is divided again with what follows it. If it takes half of the window, the
    window is widened once, and then cuts it: so each character is read a few times at most. divide: takes a
    text and the number of characters before it.
    """
    start, begins, own_width = 0, True, width
    while start < len(paragraph):
        end = _end_of_window(paragraph, start, own_width)
        found = list(divide(paragraph[start:end], offset + start))
        last = found[-1].tokens[0].start - offset if found else end
        if end < len(paragraph) and last - start < width // 2 and own_width == width:
            own_width *= 2
            continue
        own_width = width
        if end < len(paragraph) and last - start >= width // 2 and len(found) > 1:
            found.pop()
            end = last
        elif found and end < len(paragraph) and not paragraph[end].isspace():
            found[-1] = _with_more_after(found[-1], offset + end)
        for sentence in found:
            yield sentence if begins else replace(sentence, begins_paragraph=False)
            begins = False
        start = end


def _end_of_window(paragraph: str, start: int, width: int) -> int:
    """The end at a line end or a blank in the second half of the window, or else anywhere."""
    end = start + width
    if end >= len(paragraph):
        return len(paragraph)
    places = (paragraph.rfind(cut, start + width // 2, end) for cut in CUTS)
    return next((place for place in places if place > 0), end)


def _with_more_after(sentence: TokenizedSentence, end: int) -> TokenizedSentence:
    """The sentence of a window that ends within a word."""
    *others, last = sentence.tokens
    if last.end < end:
        return sentence
    return replace(sentence, tokens=(*others, replace(last, space_after=False)))


def joined(parts: Iterable[TokenizedSentence]) -> Iterator[TokenizedSentence]:
    """Yield the parts of a sentence as one sentence, if there are any."""
    found = list(parts)
    if found:
        tokens = tuple(token for part in found for token in part.tokens)
        text = "".join(f"{part.text}{' ' if part.tokens[-1].space_after else ''}" for part in found)
        yield replace(found[0], tokens=tokens, text=text.rstrip())
