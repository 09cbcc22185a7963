"""Draws trees as lines of text and as SVG."""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Sequence
from itertools import accumulate

from parser.pages.page import rendered
from parser.system.console import shortened

GAP, CHARACTER, LEVEL, MARGIN = 24, 8, 26, 10
"""Sizes in pixels: the gap between words, a character, the distance of arc heights, and the outer margin."""
MAX_CHARACTERS = 2_000_000
"""Maximum size of a drawing in text. For a sentence of a hundred words it is some thousands."""
TOO_LARGE = (
    f"a drawing in text would have more than {MAX_CHARACTERS:,} characters; "
    "`stack-parser draw FILE -o trees.html` makes a page, which a browser shows"
)
UP, DOWN, LEFT, RIGHT = 1, 2, 4, 8
"""Directions in which a line leaves a character."""
BOX = {
    0: " ",
    UP | DOWN: "│",
    LEFT | RIGHT: "─",
    DOWN | RIGHT: "╭",
    UP | RIGHT: "╰",
    UP | DOWN | RIGHT: "├",
    DOWN | LEFT | RIGHT: "┬",
    UP | LEFT | RIGHT: "┴",
    UP | DOWN | LEFT | RIGHT: "┼",
}


def as_text(
    words: Sequence[str], heads: Sequence[int], labels: Sequence[str], notes: Sequence[str] = ()
) -> str:
    """Draw a line for each word with its label, and arcs to the left of the words; ► marks the dependent.

    notes: a remark after the label of each word, "" for none. A drawing of more than `MAX_CHARACTERS` is
    replaced by a sentence.
    """
    widths = [columns(word) for word in words]
    longest = max(widths, default=0)
    longest_label = max(map(columns, labels), default=0) + len(" (root)")
    too_large = f"({len(words):,} words: {TOO_LARGE})"
    if 2 * sum(abs(head - word) for word, head in enumerate(heads, 1) if head) > MAX_CHARACTERS:
        return too_large  # before the heights are computed: arcs do not overlap
    heights = arc_heights(heads, may_touch=False)
    right = 2 * max(heights, default=0)
    if len(heads) * (right + longest + longest_label) > MAX_CHARACTERS:
        return too_large
    lines = [[0] * right for _ in words]
    for dependent, (head, height) in enumerate(zip(heads, heights, strict=True)):
        if head:
            first, last = sorted((head - 1, dependent))
            column = right - 2 * height
            for row in range(first, last + 1):
                lines[row][column] |= (UP if row > first else 0) | (DOWN if row < last else 0)
            for row in (first, last):
                lines[row][column] |= RIGHT
                for at in range(column + 1, right):
                    lines[row][at] |= LEFT | RIGHT
    rows = []
    for line, word, width, label, head, note in zip(
        lines, words, widths, labels, heads, notes or [""] * len(words), strict=True
    ):
        end = "►" if head else "─" if any(line) else " "
        root = "" if head else " (root)"
        arcs = "".join(map(BOX.__getitem__, line))
        named = f"{label}{root}"
        remark = f"{' ' * (longest_label - columns(named))}  {note}" if note else ""
        rows.append(f"{arcs}{end} {word}{' ' * (longest - width)}  {named}{remark}")
    return "\n".join(rows)


def columns(text: str) -> int:
    """Return the columns of a text in a terminal: two for a wide character, none for a combining one."""
    return sum(
        0
        if unicodedata.category(character) in ("Mn", "Me", "Cf")
        else 2
        if unicodedata.east_asian_width(character) in ("W", "F")
        else 1
        for character in text
    )


def as_svg(words: Sequence[str], heads: Sequence[int], labels: Sequence[str]) -> str:
    """Draw words in a line, with arcs above them from head to dependent."""
    heights = arc_heights(heads)
    widths = [
        CHARACTER * max(columns(word), columns(label)) + GAP
        for word, label in zip(words, labels, strict=True)
    ]
    middles = [end - width // 2 for end, width in zip(accumulate(widths), widths, strict=True)]
    ground = LEVEL * (max(heights, default=0) + 1) + MARGIN
    arcs = []
    for dependent, (head, height) in enumerate(zip(heads, heights, strict=True)):
        beside = 4 if dependent > head - 1 else -4  # the arcs to the word and from it
        start = middles[head - 1] + beside if head else None
        arcs.append((start, ground - LEVEL * height if head else 2 * MARGIN))
    named = ["ROOT", *map(shortened, words)]  # shortened, as one word may be the head of all others
    return rendered(
        "tree.svg",
        words=list(zip(words, middles, labels, arcs, strict=True)),
        ground=ground,
        width=sum(widths),
        description="; ".join(
            f"{label}({named[head]}, {word})" for word, head, label in zip(words, heads, labels, strict=True)
        ),
    )


def arc_heights(heads: Sequence[int], may_touch: bool = True) -> list[int]:
    """Return the height of the arc to each word, above all shorter arcs below it; 0 for arcs from ROOT.

    may_touch: whether the arcs to and from a word may have the same height. In text they would form one line,
    and a chain of words would look like the dependents of one word.
    """
    heights = [0] * len(heads)
    arcs = sorted(
        (abs(head - word), min(head, word), max(head, word), word)
        for word, head in enumerate(heads, 1)
        if head
    )
    reached = [0] * (len(heads) + 1)
    """The height reached in the gap between a word and the next."""
    of_dependents: dict[int, set[int]] = defaultdict(set)
    """The heights of the arcs from each word."""
    for _, first, last, word in arcs:
        head = heads[word - 1]
        height = 1 + max(reached[first:last])
        while not may_touch and (height in of_dependents[word] or height == heights[head - 1]):
            height += 1
        heights[word - 1] = height
        of_dependents[head].add(height)
        reached[first:last] = [height] * (last - first)
    return heights
