"""Parts of a treebank file for several processes: bytes, which the process that reads them decodes.

Dividing a file by a search for blank lines costs a hundredth of reading its sentences.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from io import BufferedReader, StringIO
from typing import NamedTuple

from parser.treebank.conllu import BYTE_ORDER_MARK, MAX_BLOCK_BYTES, Roots, bounded_blocks, parse_block
from parser.treebank.faults import Faults
from parser.treebank.sentence import Sentence
from parser.treebank.text_files import open_bytes

PART_BYTES = 1 << 21
"""About two thousand sentences. Larger parts fill batches better, smaller ones end together."""
MAX_SENTENCE_BYTES = 2 * MAX_BLOCK_BYTES
"""More bytes than a sentence that is not too large can have: characters of two bytes are the densest ones, at
one byte in memory."""
LAST_SPACE = 0x3000
"""The last character of Unicode that is white space."""


def _blank_line() -> str:
    """A pattern of a line that `conllu.blocks` takes for blank, in UTF-8."""
    spaces = [chr(code) for code in range(LAST_SPACE + 1) if chr(code).isspace() and chr(code) != "\n"]
    space = "|".join(re.escape(character.encode().decode("latin-1")) for character in spaces)
    mark = BYTE_ORDER_MARK.encode().decode("latin-1")
    return f"(?:{mark})*(?:{space})*\n"


BLANK_LINES = re.compile(f"(?:{_blank_line()})*".encode("latin-1"))
SENTENCE_END = re.compile(f"\n(?:{_blank_line()})+".encode("latin-1"))
"""The end of a sentence's last line, and all blank lines after it."""


class TreebankPart(NamedTuple):
    """Consecutive sentences of a file."""

    line: int
    """Line number of the first line in the file, from 1."""
    ordinal: int
    """Number of the first sentence in the file, from 1."""
    content: bytes


def stream_parts(path: str) -> Iterator[TreebankPart]:
    """Read a file part by part. Raises as `open_text` does."""
    with open_bytes(path) as file:
        yield from parts(_chunks(file))


def _chunks(file: BufferedReader) -> Iterator[bytes]:
    # `read` would not notice a signal before it has all bytes.
    pieces, size = [], 0
    while piece := file.read1(PART_BYTES):
        pieces.append(piece)
        size += len(piece)
        if size >= PART_BYTES:
            yield b"".join(pieces)
            pieces, size = [], 0
    yield b"".join(pieces)


def parts(chunks: Iterable[bytes]) -> Iterator[TreebankPart]:
    """Divide a file, of which each chunk is a piece, between sentences. No byte is lost.

    A sentence that is too large ends the last part.
    """
    pending, line, ordinal = b"", 1, 1
    for chunk in chunks:
        pending += chunk
        ends = _sentence_ends(pending)
        if ends:
            content, pending = pending[: ends[-1]], pending[ends[-1] :]
            yield TreebankPart(line, ordinal, content)
            line += content.count(b"\n")
            ordinal += len(ends)
        if len(pending) > MAX_SENTENCE_BYTES:
            break
    if pending:
        yield TreebankPart(line, ordinal, pending)


def _sentence_ends(content: bytes) -> list[int]:
    """Where each sentence ends that a complete line of another one follows."""
    last_line_end = content.rfind(b"\n")
    begin = BLANK_LINES.match(content)
    assert begin  # it matches nothing, too
    ends = (found.end() for found in SENTENCE_END.finditer(content, begin.end()))
    return [end for end in ends if end <= last_line_end]


def read_part(part: TreebankPart, tree: bool, roots: Roots = "refuse") -> tuple[list[Sentence], Faults]:
    """The sentences before the first fault, and the faults. tree, roots: see `stream_sentences`."""
    sentences, faults = [], Faults()
    text = StringIO(part.content.decode("utf-8", "surrogateescape"), newline="\n")
    for block in bounded_blocks(text, faults, part.line, part.ordinal):
        parsed = parse_block(block, tree, roots)
        if not isinstance(parsed, Sentence):
            faults.add(parsed)
        elif not faults.total:
            sentences.append(parsed)
    return sentences, faults
