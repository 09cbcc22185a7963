"""Parts of a treebank file for several processes: bytes, which are decoded by the process that reads them.

Dividing a file by searching for blank lines takes a hundredth of the time of reading its sentences.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from io import BufferedReader, StringIO
from typing import NamedTuple

from parser.treebank.conllu import (
    MAX_BLOCK_BYTES,
    Roots,
    SentenceCheck,
    bounded_blocks,
    sentences_before_fault,
)
from parser.treebank.faults import Faults
from parser.treebank.sentence import Sentence
from parser.treebank.text_files import BYTE_ORDER_MARK, open_bytes

PART_BYTES = 1 << 21
"""About two thousand sentences. Larger parts fill batches better; smaller ones let processes end together."""
MAX_SENTENCE_BYTES = 2 * MAX_BLOCK_BYTES
"""A sentence with more bytes is certainly too large: a character takes at most twice as many bytes in UTF-8
as in memory."""
LAST_SPACE = 0x3000
"""The last character of Unicode that is white space."""


def _blank_line() -> bytes:
    """A pattern for lines that `conllu.blocks` treats as blank, in UTF-8."""
    spaces = [
        chr(code).encode() for code in range(LAST_SPACE + 1) if chr(code).isspace() and code != ord("\n")
    ]
    of_one_byte = b"".join(re.escape(space) for space in spaces if len(space) == 1)
    longer = b"|".join(re.escape(space) for space in spaces if len(space) > 1)
    return b"(?:%s)*[%s]*(?:(?:%s)[%s]*)*\n" % (BYTE_ORDER_MARK.encode(), of_one_byte, longer, of_one_byte)


BLANK_LINE = re.compile(b"\n(?=(" + _blank_line() + b"))")
"""Matches the end of the previous line; the group is the blank line."""


class TreebankPart(NamedTuple):
    """Consecutive sentences of a file."""

    line: int
    """Line number of the first line in the file, from 1."""
    ordinal: int
    """Number of the first sentence in the file, from 1."""
    content: bytes


def stream_parts(path: str) -> Iterator[TreebankPart]:
    """Read a file part by part. Raises the same errors as `open_text`."""
    with open_bytes(path) as file:
        yield from parts(_chunks(file))


def _chunks(file: BufferedReader) -> Iterator[bytes]:
    # `read` would not notice a signal before it has read all bytes.
    pieces, size = [], 0
    while piece := file.read1(PART_BYTES):
        pieces.append(piece)
        size += len(piece)
        if size >= PART_BYTES:
            yield b"".join(pieces)
            pieces, size = [], 0
    yield b"".join(pieces)


def parts(chunks: Iterable[bytes]) -> Iterator[TreebankPart]:
    """Divide a file, given in chunks, between sentences; a file of up to PART_BYTES is one part.

    No byte is lost before a sentence that is too large, which ends the last part.
    """
    line, ordinal = 1, 1
    pending = b"\n"  # begins with the end of the line before
    searched, blank_end, has_content = 0, 1, False
    ends: list[int] = []  # ends of sentences, each after its blank lines
    for chunk in chunks:
        pending += chunk
        for found in BLANK_LINE.finditer(pending, searched):
            if found.start(1) > blank_end:  # there are lines between the last blank line and this one
                if has_content:
                    ends.append(blank_end)
                has_content = True
            blank_end = found.end(1)
        if ends and len(pending) - 1 > PART_BYTES:
            content = pending[1 : ends[-1]]
            yield TreebankPart(line, ordinal, content)
            line += content.count(b"\n")
            ordinal += len(ends)
            ends = []
            pending = pending[len(content) :]
            blank_end -= len(content)
        searched = pending.rfind(b"\n")
        if max(blank_end, len(pending) - blank_end) > MAX_SENTENCE_BYTES:
            break
    if pending[1:]:
        yield TreebankPart(line, ordinal, pending[1:])


def read_part(
    part: TreebankPart, tree: bool, roots: Roots = "refuse", partial: SentenceCheck | None = None
) -> tuple[list[Sentence], Faults]:
    """The sentences before the first fault, and the faults. tree, roots, partial: see `parse_block`."""
    faults = Faults()
    text = StringIO(part.content.decode("utf-8", "surrogateescape"), newline="\n")
    found = bounded_blocks(text, faults, part.line, part.ordinal)
    sentences = sentences_before_fault(found, faults, tree, roots, partial)
    return [one for one in sentences if one is not None], faults
