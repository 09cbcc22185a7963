"""Reading CoNLL-U and CoNLL-X.

A sentence keeps its lines. Output is written from them, so that columns and comments which the parser does
not use are preserved.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, TextIO, TypeVar

from parser.system.progress_bar import PROGRESS_BAR, ProgressBar
from parser.treebank.columns import BLANK, HEAD, LABEL, WORD_COLUMNS
from parser.treebank.faults import Fault, Faults, Row, TreebankError, sentence_faults, undecoded
from parser.treebank.sentence import NO_HEAD, Sentence
from parser.treebank.text_files import BYTE_ORDER_MARK, UnboundedError, bounded_lines, open_text
from parser.treebank.waiting_input import lines_as_they_come, waits

MAX_BLOCK_BYTES = 1 << 26
"""Memory limit for the lines of one sentence. A sentence of 50,000 words needs a tenth of it."""
POINTER_BYTES = 8
Roots = Literal["refuse", "attach-to-first"]
NO_SENTENCE = Fault(0, "", "no sentences")
SentenceCheck = Callable[[Sentence], Sequence[Fault]]
"""Finds faults in a sentence whose tree is given in part."""
UNSPECIFIED = "dep"
"""The label of an unspecified dependency in Universal and Stanford Dependencies."""


AnyBlock = TypeVar("AnyBlock", "Block", "Block | None")


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
        return self.sent_id or f"#{self.ordinal}"

    @cached_property
    def sent_id(self) -> str | None:
        return comment(self.lines, "sent_id")


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


def block_rows(block: Block) -> list[tuple[int, Row]]:
    """The lines with columns, each with its index in `block.lines`."""
    rows = []
    for place, line in enumerate(block.lines):
        content = line.rstrip("\r\n")
        if content and not content.isspace() and not content.startswith("#"):
            rows.append((place, Row.of(block.line + place, content)))
    return rows


def parse_block(
    block: Block, tree: bool, roots: Roots = "refuse", partial: SentenceCheck | None = None
) -> Sentence | list[Fault]:
    """Parse a block. Returns the sentence, or all faults of the block.

    tree: whether HEAD and DEPREL are validated and read. roots: see `read_treebank`. partial: if given, any
    HEAD or DEPREL may be `_`, and this function finds further faults.
    """
    placed_rows = block_rows(block)
    rows = [row for _, row in placed_rows]
    if not rows:
        return [Fault(block.line, block.identifier, "comments without words")]
    faults = comment_faults(block)
    faults += sentence_faults(rows, block.identifier, tree, roots != "refuse", partial is not None)
    if faults:
        return [_with_cause(fault, block) for fault in faults]
    words = [(place, row) for place, row in placed_rows if row.is_word]
    columns = list(zip(*(row.columns for _, row in words), strict=True))
    heads, labels = [NO_HEAD] * len(words), ["_"] * len(words)
    if tree:
        heads = [NO_HEAD if head == BLANK else int(head) for head in columns[HEAD]]
        labels = list(columns[LABEL])
    if heads.count(0) > 1 and roots == "attach-to-first":
        heads, labels = _attached_to_first(heads, labels)
    of_words: dict[str, Any] = {own.attribute: columns[own.place] for own in WORD_COLUMNS.values()}
    sentence = Sentence(
        **of_words,
        heads=tuple(heads),
        labels=tuple(labels),
        identifier=block.identifier,
        line=block.line,
        lines=block.lines,
        word_lines=tuple(place for place, _ in words),
    )
    return (list(partial(sentence)) if partial else []) or sentence


def comment_faults(block: Block) -> list[Fault]:
    faults = []
    for place, line in enumerate(block.lines):
        if line.startswith("#") and (message := undecoded(line)):
            faults.append(Fault(block.line + place, block.identifier, message))
    return faults


def _with_cause(fault: Fault, block: Block) -> Fault:
    """Add a likely cause, a truncated file, to a fault in a last line without a line end."""
    if fault.line == block.line + len(block.lines) - 1 and not block.lines[-1].endswith("\n"):
        return replace(fault, message=f"{fault.message}; the file ends in this line: was it cut?")
    return fault


def _attached_to_first(heads: Sequence[int], labels: Sequence[str]) -> tuple[list[int], list[str]]:
    """Attach all other roots to the first one. Their label `root` becomes `dep`."""
    found = []
    first = heads.index(0) + 1
    for word, (head, label) in enumerate(zip(heads, labels, strict=True), 1):
        if head == 0 and word != first:
            found.append((first, UNSPECIFIED if label.lower() == "root" else label))
        else:
            found.append((head, label))
    return [head for head, _ in found], [label for _, label in found]


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
    yield from sentences_before_fault(_bounded(_blocks_of_file(path), faults), faults, tree, roots, partial)
    faults.check(path)


def sentences_before_fault(
    found: Iterable[Block | None],
    faults: Faults,
    tree: bool = True,
    roots: Roots = "refuse",
    partial: SentenceCheck | None = None,
) -> Iterator[Sentence | None]:
    """The sentences of blocks before the first one with a fault. All faults are added to `faults`.

    found: the blocks; None is passed on. tree, roots, partial: see `parse_block`.
    """
    for block in found:
        if block is None:
            yield None
            continue
        parsed = parse_block(block, tree, roots, partial)
        if not isinstance(parsed, Sentence):
            faults.add(parsed)
        elif not faults.total:
            yield parsed


def _blocks_of_file(path: str) -> Iterator[Block | None]:
    if waits(path):
        yield from blocks_as_they_come(lines_as_they_come())
        return
    with open_text(path) as file:
        yield from blocks(bounded_lines(file))


def bounded_blocks(file: TextIO, faults: Faults, first_line: int = 1, ordinal: int = 1) -> Iterator[Block]:
    """Like `blocks`, but stops at a block or line that is too large, and adds it to the faults."""
    return _bounded(blocks(bounded_lines(file, first_line), first_line, ordinal), faults)


def _bounded(found: Iterator[AnyBlock], faults: Faults) -> Iterator[AnyBlock]:
    try:
        yield from found
    except UnboundedError as error:
        faults.end(Fault(error.line, "", f"{error}; nothing is read after it"))


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
