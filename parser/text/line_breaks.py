"""Which line ends of a paragraph end sentences, as in lists, verse, chats and tables, and which only wrap it.

A text that is wrapped has a line end where the next word would not have fitted. So a line end where it would
have fitted is meant, unless the line is long and the next one goes on in small letters. If most line ends of
a paragraph are meant, the others are, too: the longest line of a list has no room for another word. A line
that begins with a list marker is always new, and so are the lines of a chat.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise

from parser.text.tokenizer import Paragraph, TokenizedSentence, joined, stripped

NARROWEST = 50
"""Fewest columns to which texts are wrapped: a paragraph of shorter lines is not wrapped."""
ITEM = r"(?:[-*+•‣◦·\u2013\u2014]|\(?[0-9]{1,3}[.)]|\(?[A-Za-z]\))"
"""A list marker, such as `-`, `2.` or `(a)`."""
LONE_MARKER, MARKER = re.compile(ITEM), re.compile(rf"[ \t]*{ITEM}[ \t]+\S")
"""A marker alone, and the start of a list item."""
SPEAKER = re.compile(r"(?:\[[^\]]{1,20}\][ \t]*)?(?:<[^>\s]{1,30}>|[^\s:]{1,30}:)[ \t]+\S")
"""The start of a line of a chat, such as `anna: ` or `[10:15] <bob> `."""
LONG = 0.6
"""The share of the width that a line fills if it goes on in the next one."""
FINAL = ".!?:;…。\uff01\uff1f"
"""The last characters of lines after which no sentence goes on."""


def divided_at_lines(paragraph: Paragraph) -> Iterator[Paragraph]:
    """The parts of a paragraph that a line end divides; all of it if none does."""
    text, offset = paragraph
    if "\n" not in text:
        yield paragraph
        return
    start = 0
    for end in _ends(text):
        yield from stripped(text[start:end], offset + start)
        start = end
    yield from stripped(text[start:], offset + start)


def _ends(text: str) -> list[int]:
    """The places of the line ends that are meant."""
    lines = [line.rstrip() for line in text.split("\n")]
    width = max(NARROWEST, *map(len, lines))
    goes_on = [len(line) >= LONG * width and _goes_on(line, following) for line, following in pairwise(lines)]
    speakers = [bool(SPEAKER.match(line)) for line in lines]
    is_chat = speakers[0] and 2 * sum(speakers) >= len(lines)
    is_new = [
        bool(MARKER.match(following)) or (is_chat and speaks)
        for following, speaks in zip(lines[1:], speakers[1:], strict=True)
    ]
    has_room = [
        len(line) + 1 + len(following.split(None, 1)[0] if following.strip() else "") <= width
        for line, following in pairwise(lines)
    ]
    meant = [new or (room and not on) for new, room, on in zip(is_new, has_room, goes_on, strict=True)]
    if 2 * sum(meant) >= len(meant):
        meant = [new or not on for new, on in zip(is_new, goes_on, strict=True)]
    ends = (found.start() for found in re.finditer("\n", text))
    return [end for end, is_meant in zip(ends, meant, strict=True) if is_meant]


def with_markers(sentences: Iterable[TokenizedSentence]) -> Iterator[TokenizedSentence]:
    """The sentences of paragraphs, where a list marker at the start is not a sentence of its own."""
    marker = None
    for sentence in sentences:
        if marker and not sentence.begins_paragraph:
            [sentence] = joined([marker, sentence])
        elif marker:
            yield marker
        marker = None
        if sentence.begins_paragraph and LONE_MARKER.fullmatch(sentence.text):
            marker = sentence
        else:
            yield sentence
    if marker:
        yield marker


def _goes_on(line: str, following: str) -> bool:
    """Whether the next line continues the sentence of a line, by their letters."""
    return following.lstrip()[:1].islower() and not line.endswith(tuple(FINAL))
