"""Reading CoNLL-U and CoNLL-X: the lines of a file, blocks of lines, and the sentences in them.

A sentence keeps its lines. Output is written from them, so that columns and comments which the parser does
not use are preserved. `conllu_faults.py` checks the lines, and `conllu_output.py` writes them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from io import BufferedReader, StringIO
from typing import Any, Literal, NamedTuple

from parser.system.progress_bar import PROGRESS_BAR, ProgressBar
from parser.treebank.conllu_faults import Fault, Faults, Row, TreebankError, sentence_faults, undecoded
from parser.treebank.sentence import BLANK, HEAD, LABEL, NO_HEAD, WORD_COLUMNS, WORD_ID, Sentence
from parser.treebank.text_files import (
    BYTE_ORDER_MARK,
    UnboundedError,
    bounded_lines,
    lines_as_they_come,
    open_bytes,
    open_text,
    waits,
)

MAX_BLOCK_BYTES = 1 << 26
"""Memory limit for the lines of one sentence. A sentence of 50,000 words needs a tenth of it."""
POINTER_BYTES = 8
Roots = Literal["refuse", "attach-to-first"]
NO_SENTENCE = Fault(0, "", "no sentences")
SentenceCheck = Callable[[Sentence], Sequence[Fault]]
"""Finds faults in a sentence whose tree is given in part."""
UNSPECIFIED = "dep"
"""The label of an unspecified dependency in Universal and Stanford Dependencies."""


def read_treebank(path: str, roots: Roots = "refuse", partial: SentenceCheck | None = None) -> list[Sentence]:
    """Read all trees of a file.

    roots: what to do with a tree with several roots. "attach-to-first" attaches other roots to the first one
    and changes their label `root` to `dep`. partial: see `parse_block`. Raises TreebankError, which lists the
    faults of the file, and OSError.
    """
    reading = ProgressBar(
        stream_sentences(path, roots=roots, partial=partial),
        desc=f"reading {path}",
        unit=" sentences",
        **PROGRESS_BAR,
    )
    sentences = list(reading)
    if not sentences:
        raise TreebankError(path, [NO_SENTENCE])
    return sentences


def stream_sentences(
    path: str, tree: bool = True, roots: Roots = "refuse", partial: SentenceCheck | None = None
) -> Iterator[Sentence]:
    """Read a file sentence by sentence.

    tree, roots, partial: see `parse_block`. After a sentence with a fault, no further sentence is yielded,
    but the rest of the file is validated. Raises TreebankError with the faults of the file.
    """
    return (one for one in sentences_as_they_come(path, tree, roots, partial) if one is not None)


def sentences_as_they_come(
    path: str, tree: bool = True, roots: Roots = "refuse", partial: SentenceCheck | None = None
) -> Iterator[Sentence | None]:
    """Like `stream_sentences`, but yields None whenever standard input has no further sentence yet."""
    faults = Faults()
    if waits(path):
        arriving = blocks_as_they_come(lines_as_they_come())
        yield from _sentences_before_fault(arriving, faults, tree, roots, partial)
    else:
        with open_text(path) as file:
            yield from _sentences_before_fault(blocks(bounded_lines(file)), faults, tree, roots, partial)
    faults.check(path)


def sentences_in(
    content: str,
    faults: Faults,
    tree: bool,
    roots: Roots = "refuse",
    partial: SentenceCheck | None = None,
    line: int = 1,
    ordinal: int = 1,
) -> Iterator[Sentence]:
    """The sentences of a part of a file before the first fault. All faults are added to `faults`.

    tree, roots, partial: see `parse_block`. line, ordinal: the numbers of the first line and sentence.
    """
    lines = bounded_lines(StringIO(content, newline="\n"), line)
    sentences = _sentences_before_fault(blocks(lines, line, ordinal), faults, tree, roots, partial)
    return (one for one in sentences if one is not None)


def _sentences_before_fault(
    blocks: Iterator[Block] | Iterator[Block | None],
    faults: Faults,
    tree: bool,
    roots: Roots,
    partial: SentenceCheck | None,
) -> Iterator[Sentence | None]:
    """The sentences of blocks before the first one with a fault. All faults are added to `faults`.

    blocks: None is passed on; a block or line that is too large ends them. The rest: see `parse_block`.
    """
    try:
        for block in blocks:
            if block is None:
                yield None
                continue
            parsed = parse_block(block, tree, roots, partial)
            if not isinstance(parsed, Sentence):
                faults.add(parsed)
            elif not faults.total:
                yield parsed
    except UnboundedError as error:
        faults.end(Fault(error.line, "", f"{error}; nothing is read after it"))


@dataclass(frozen=True)
class Block:
    """The lines of one sentence, with the blank lines after it."""

    line: int
    """Line number of the first line in the file, from 1."""
    lines: tuple[str, ...]
    ordinal: int
    """Number of the sentence in the file, from 1."""

    @cached_property
    def identifier(self) -> str:
        """The `sent_id` comment, or "#n" for the n-th sentence if there is none."""
        return comment(self.lines, "sent_id") or f"#{self.ordinal}"


def comment(lines: Iterable[str], name: str) -> str | None:
    """The value of the first comment of this name, such as `# text = It rains.`; None if there is none."""
    for line in lines:
        if line.startswith("#"):
            key, _, value = line[1:].partition("=")
            if key.strip() == name and value.strip():
                return value.strip()
    return None


def blocks(lines: Iterable[str], first_line: int = 1, ordinal: int = 1) -> Iterator[Block]:
    """Split a file, or a part of it, into blocks of one sentence each. No line is lost.

    Only byte-order marks at the start of lines, which remain when files are joined, are removed.

    first_line, ordinal: the numbers of the first line and of the first sentence. Raises UnboundedError if a
    block is larger than `MAX_BLOCK_BYTES`.
    """
    return (block for block in blocks_as_they_come(lines, first_line, ordinal) if block)


def blocks_as_they_come(
    lines: Iterable[str | None], first_line: int = 1, ordinal: int = 1
) -> Iterator[Block | None]:
    """Like `blocks`, but `lines` contains None if the next line is not available yet; so does the result.

    At a None, the lines so far become a block if they end with a blank line; further blank lines go to the
    next block.
    """
    block: list[str] = []
    size, has_content, ended = 0, False, False
    number = first_line - 1
    for line in lines:
        if line is None:
            if ended:
                yield Block(first_line, tuple(block), ordinal)
                block, first_line, ordinal, size = [], number + 1, ordinal + 1, 0
                has_content = ended = False
            yield None
            continue
        number, line = number + 1, line.lstrip(BYTE_ORDER_MARK)
        blank = not line or line.isspace()
        if ended and not blank:
            yield Block(first_line, tuple(block), ordinal)
            block, first_line, ordinal, size, ended = [], number, ordinal + 1, 0, False
        size += POINTER_BYTES if line == "\n" else sys.getsizeof(line)  # Python shares this string
        if size > MAX_BLOCK_BYTES:
            message = f"sentence #{ordinal}, up to the next one, takes more than {MAX_BLOCK_BYTES >> 20} MiB"
            raise UnboundedError(first_line, message)
        block.append(line)
        has_content = has_content or not blank
        ended = blank and has_content
    if has_content:
        yield Block(first_line, tuple(block), ordinal)


def parse_block(
    block: Block, tree: bool, roots: Roots = "refuse", partial: SentenceCheck | None = None
) -> Sentence | list[Fault]:
    """Parse a block. Returns the sentence, or all faults of the block.

    tree: whether HEAD and DEPREL are validated and read. roots: see `read_treebank`. partial: if given, any
    HEAD or DEPREL may be `_`, and this function finds further faults.
    """
    rows: list[Row] = []
    row_lines: list[int] = []  # the index in the block of the line of each row
    faults: list[Fault] = []
    for index, line in enumerate(block.lines):
        content = line.rstrip("\r\n")
        if line.startswith("#"):
            if message := undecoded(line):
                faults.append(Fault(block.line + index, block.identifier, message))
        elif content and not content.isspace():
            rows.append(Row.of(block.line + index, content))
            row_lines.append(index)
    if not rows:
        return [Fault(block.line, block.identifier, "comments without words")]
    faults += sentence_faults(rows, block.identifier, tree, roots != "refuse", partial is not None)
    if faults:
        last = block.line + len(block.lines) - 1
        is_cut = not block.lines[-1].endswith("\n")
        cause = "; the file ends in this line: was it cut?"
        return [
            replace(fault, message=fault.message + cause) if is_cut and fault.line == last else fault
            for fault in faults
        ]
    columns = list(zip(*(row.columns for row in rows if row.is_word), strict=True))
    heads, labels = [NO_HEAD] * len(columns[HEAD]), [BLANK] * len(columns[LABEL])
    if tree:
        heads = [NO_HEAD if head == BLANK else int(head) for head in columns[HEAD]]
        labels = list(columns[LABEL])
    if heads.count(0) > 1 and roots == "attach-to-first":
        first = heads.index(0) + 1
        for word, head in enumerate(heads, 1):
            if head == 0 and word != first:
                heads[word - 1] = first
                if labels[word - 1].lower() == "root":
                    labels[word - 1] = UNSPECIFIED
    of_words: dict[str, Any] = {column.attribute: columns[column.index] for column in WORD_COLUMNS.values()}
    sentence = Sentence(
        **of_words,
        heads=tuple(heads),
        labels=tuple(labels),
        identifier=block.identifier,
        line=block.line,
        lines=block.lines,
        word_lines=tuple(index for index, row in zip(row_lines, rows, strict=True) if row.is_word),
    )
    return (list(partial(sentence)) if partial else []) or sentence


# Parts of a file for several processes: bytes, which are decoded by the process that reads them. Dividing a
# file by searching for blank lines takes a hundredth of the time of reading its sentences.

PART_BYTES = 1 << 21
"""About two thousand sentences. Larger parts fill batches better; smaller ones let processes end together."""
LEAST_SHARE = 1 << 15
"""The smallest share of a part, in bytes: about 32 sentences, which are parsed together."""
CHUNKS_OF_SHARE = 16
"""A share is larger than it should be by at most a chunk and a sentence."""
MAX_SENTENCE_BYTES = 2 * MAX_BLOCK_BYTES
"""A sentence with more bytes is certainly too large: a character takes at most twice as many bytes in UTF-8
as in memory."""
LAST_SPACE = 0x3000
"""The last character of Unicode that is white space."""


def _blank_line() -> bytes:
    """A pattern for lines that `blocks` treats as blank, in UTF-8."""
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


def shares(part: TreebankPart, processes: int) -> Iterator[TreebankPart]:
    """Divide a part between sentences into about equal ones, at most `processes` and one more."""
    size = max(LEAST_SHARE, -(-len(part.content) // processes))
    step = -(-size // CHUNKS_OF_SHARE)
    chunks = (part.content[start : start + step] for start in range(0, len(part.content), step))
    return parts(chunks, size, part.line, part.ordinal)


def parts(
    chunks: Iterable[bytes], size: int | None = None, line: int = 1, ordinal: int = 1
) -> Iterator[TreebankPart]:
    """Divide a file, given in chunks, between sentences; a file of up to `size` bytes is one part.

    size: `PART_BYTES` by default. line, ordinal: the numbers of the first line and sentence. No byte is lost
    before a sentence that is too large, which ends the last part.
    """
    size = PART_BYTES if size is None else size
    pending = b"\n"  # begins with the end of the line before
    searched, blank_end, has_content = 0, 1, False
    ends: list[int] = []  # ends of sentences, each after its blank lines
    for chunk in chunks:
        pending += chunk
        for blank in BLANK_LINE.finditer(pending, searched):
            if blank.start(1) > blank_end:  # there are lines between the last blank line and this one
                if has_content:
                    ends.append(blank_end)
                has_content = True
            blank_end = blank.end(1)
        if ends and len(pending) - 1 > size:
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
    content = part.content.decode("utf-8", "surrogateescape")
    return list(sentences_in(content, faults, tree, roots, partial, part.line, part.ordinal)), faults


class TreebankSize(NamedTuple):
    sentences: int
    words: int


def size_of(path: str, most: int | None = None) -> TreebankSize:
    """The size of a file, or of its first `most` sentences, counted without reading its trees.

    Raises OSError, and ValueError if the file is not text in lines.
    """
    sentences = words = 0
    with open_text(path) as file:
        for block in blocks(bounded_lines(file)):
            if sentences == most:
                break
            sentences += 1
            words += sum(WORD_ID.fullmatch(line.partition("\t")[0]) is not None for line in block.lines)
    return TreebankSize(sentences, words)
