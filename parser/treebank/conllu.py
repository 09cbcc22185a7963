"""Files in CoNLL-U or CoNLL-X <-> sentences.

A pass over the lines of a sentence validates and remembers them; the `conllu` library parses what
passed. Files are written from the remembered lines, so that nothing is lost that we do not understand.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import conllu
from tqdm import tqdm

from parser.console import PROGRESS_BAR
from parser.treebank.faults import (
    COLUMNS,
    DEPS,
    FEATS,
    FORM,
    HEAD,
    ID,
    LABEL,
    LEMMA,
    MISC,
    SHOWN_FAULTS,
    UPOS,
    WORD_ID,
    XPOS,
    Fault,
    Row,
    TreebankError,
    sentence_faults,
    undecoded,
)
from parser.treebank.sentence import NO_HEAD, Sentence
from parser.treebank.text_files import UnboundedError, bounded_lines, open_text

BYTE_ORDER_MARK = "\ufeff"
MAX_BLOCK_BYTES = 1 << 26
"""Bytes of memory for the lines of a sentence: those of one of 50,000 words take a tenth of it."""
POINTER = 8
"""Bytes."""
Roots = Literal["refuse", "attach-to-first"]
ARC_PROBABILITY = "ArcProbability"
ENHANCED_ARC = re.compile(r"[0-9.]+:")
PROJECTIVE_HEAD = re.compile(r"[0-9]+")
"""CoNLL-X's in the place of DEPS; PDEPREL stands in the place of MISC then."""
MAX_COLUMNS = len(COLUMNS) + 1
UNSPECIFIED = "dep"
"""A label of Universal and of Stanford Dependencies."""


@dataclass(frozen=True)
class Block:
    """The lines of one sentence and the blank lines behind it; `line` is the first one's number."""

    line: int
    lines: tuple[str, ...]
    ordinal: int

    @cached_property
    def identifier(self) -> str:
        for line in self.lines:
            if line.startswith("#"):
                key, _, value = line[1:].partition("=")
                if key.strip() == "sent_id" and value.strip():
                    return value.strip()
        return f"#{self.ordinal}"


def blocks(lines: Iterable[str]) -> Iterator[Block]:
    """Cut a file into sentences. The blocks' lines, joined, are the file.

    Raises UnboundedError at a block larger than `MAX_BLOCK_BYTES`.
    """
    block: list[str] = []
    first_line, ordinal, size, has_content, ended = 1, 1, 0, False, False
    for number, line in enumerate(lines, 1):
        blank = not line.lstrip(BYTE_ORDER_MARK).strip()
        if ended and not blank:
            yield Block(first_line, tuple(block), ordinal)
            block, first_line, ordinal, size, ended = [], number, ordinal + 1, 0, False
        size += POINTER if line == "\n" else sys.getsizeof(line)  # Python has that string once
        if size > MAX_BLOCK_BYTES:
            message = (
                f"sentence #{ordinal}, all up to the next one, takes more than {MAX_BLOCK_BYTES >> 20} MiB"
            )
            raise UnboundedError(first_line, message)
        block.append(line)
        has_content = has_content or not blank
        ended = blank and has_content
    if has_content:
        yield Block(first_line, tuple(block), ordinal)


def block_rows(block: Block) -> list[tuple[int, Row]]:
    """The lines with columns, each with its place among the block's lines."""
    rows = []
    for place, line in enumerate(block.lines):
        content = line.lstrip(BYTE_ORDER_MARK).rstrip("\r\n")
        if content.strip() and not content.startswith("#"):
            # What has more columns is a fault: there is no need to take it apart.
            columns = content.split("\t", MAX_COLUMNS)
            rows.append((place, Row(block.line + place, tuple(columns), content.count("\t") + 1)))
    return rows


def parse_block(block: Block, tree: bool, roots: Roots = "refuse") -> Sentence | list[Fault]:
    """A block's sentence, or all that is wrong with it."""
    placed_rows = block_rows(block)
    rows = [row for _, row in placed_rows]
    if not rows:
        return [Fault(block.line, block.identifier, "comments without words")]
    faults = comment_faults(block)
    faults += sentence_faults(rows, block.identifier, tree, several_roots=roots != "refuse")
    if faults:
        return [_with_cause(fault, block) for fault in faults]
    tokens = parse_rows(rows, tree)
    words = [
        (place, row.columns, token)
        for (place, row), token in zip(placed_rows, tokens, strict=True)
        if is_word(token)
    ]
    heads = [token["head"] if tree else NO_HEAD for *_, token in words]
    labels = [columns[LABEL] if tree else "_" for _, columns, _ in words]
    if heads.count(0) > 1:
        heads, labels = _attached_to_first(heads, labels)
    return Sentence(
        forms=tuple(columns[FORM] for _, columns, _ in words),
        upos=tuple(columns[UPOS] for _, columns, _ in words),
        xpos=tuple(columns[XPOS] for _, columns, _ in words),
        lemmas=tuple(columns[LEMMA] for _, columns, _ in words),
        feats=tuple(columns[FEATS] for _, columns, _ in words),
        heads=tuple(heads),
        labels=tuple(labels),
        identifier=block.identifier,
        line=block.line,
        lines=block.lines,
        word_lines=tuple(place for place, *_ in words),
    )


def comment_faults(block: Block) -> list[Fault]:
    faults = []
    for place, line in enumerate(block.lines):
        if line.startswith("#") and (message := undecoded(line)):
            faults.append(Fault(block.line + place, block.identifier, message))
    return faults


def _with_cause(fault: Fault, block: Block) -> Fault:
    """The fault, if it is in a last line without an end, with the likely reason."""
    if fault.line == block.line + len(block.lines) - 1 and not block.lines[-1].endswith("\n"):
        return replace(fault, message=f"{fault.message}; the file ends in this line: was it cut?")
    return fault


def _attached_to_first(heads: Sequence[int], labels: Sequence[str]) -> tuple[list[int], list[str]]:
    """Heads and labels with all roots but the first below that, where they can not be called `root`."""
    found = []
    first = heads.index(0) + 1
    for word, (head, label) in enumerate(zip(heads, labels, strict=True), 1):
        if head == 0 and word != first:
            found.append((first, UNSPECIFIED if label.lower() == "root" else label))
        else:
            found.append((head, label))
    return [head for head, _ in found], [label for _, label in found]


def parse_rows(rows: Sequence[Row], tree: bool) -> conllu.TokenList:
    """The library's tokens of validated rows: their ids, and of words the heads if it is a `tree`.

    The other columns may hold what the library takes for the end of a line or of a column.
    """
    lines = []
    for row in rows:
        has_head = tree and WORD_ID.fullmatch(row.columns[ID])
        lines.append(f"{row.columns[ID]}\t{row.columns[HEAD] if has_head else '_'}")
    return conllu.parse("\n".join(lines), fields=["id", "head"])[0]


def is_word(token: conllu.Token) -> bool:
    """Whether it is a syntactic word, not a multiword token or an empty node."""
    return isinstance(token["id"], int)


def stream_sentences(path: str, tree: bool = True, roots: Roots = "refuse") -> Iterator[Sentence]:
    """Read a file sentence by sentence.

    tree: whether HEAD and DEPREL are needed; roots: as for `read_treebank`. At a faulty sentence the rest of
    the file is looked through, and TreebankError raised with all its faults.
    """
    faults: list[Fault] = []
    total = 0
    with open_text(path) as file:
        try:
            for block in blocks(bounded_lines(file)):
                parsed = parse_block(block, tree, roots)
                if not isinstance(parsed, Sentence):
                    total += len(parsed)
                    faults += parsed[: SHOWN_FAULTS - len(faults)]
                elif not faults:
                    yield parsed
        except UnboundedError as error:
            total += 1
            faults.append(Fault(error.line, "-", f"{error}; nothing is read behind it"))
    if faults:
        raise TreebankError(path, faults, total)


def read_treebank(path: str, roots: Roots = "refuse") -> list[Sentence]:
    """Read all trees of a file. Raises TreebankError with every fault of the file, FileNotFoundError.

    roots: what to do where a tree has several; "attach-to-first" puts the others below the first, those
    labelled `root` as `dep`.
    """
    reading = tqdm(
        stream_sentences(path, roots=roots), desc=f"reading {path}", unit=" sentences", **PROGRESS_BAR
    )
    sentences = list(reading)
    if not sentences:
        raise TreebankError(path, [Fault(1, "-", "the file holds no sentence")])
    return sentences


def with_probabilities(sentence: Sentence, probabilities: Sequence[float]) -> Sentence:
    """The sentence with `ArcProbability=...` in MISC, in the place of what stood there under that name.

    Raises ValueError for a sentence of CoNLL-X with PDEPREL in that column.
    """
    lines = list(sentence.lines)
    for place, probability in zip(sentence.word_lines, probabilities, strict=True):
        content = lines[place].rstrip("\r\n")
        line_end = lines[place][len(content) :]
        columns = content.split("\t")
        if PROJECTIVE_HEAD.fullmatch(columns[DEPS]):
            message = "has the PHEAD and PDEPREL of CoNLL-X: there is no column for probabilities"
            raise ValueError(f"line {sentence.line + place}: sentence {sentence.identifier} {message}")
        others = [
            part
            for part in columns[MISC].split("|")
            if part != "_" and not part.startswith(f"{ARC_PROBABILITY}=")
        ]
        columns[MISC] = "|".join([*others, f"{ARC_PROBABILITY}={probability:.4f}"])
        lines[place] = "\t".join(columns) + line_end
    return replace(sentence, lines=tuple(lines))


def with_tree(sentence: Sentence, heads: Sequence[int], labels: Sequence[str]) -> str:
    """The sentence's lines with another tree in HEAD and DEPREL.

    DEPS (enhanced dependencies) becomes _ where a word's arc changes, since it was built on the old one.
    """
    lines = list(sentence.lines)
    for place, head, label in zip(sentence.word_lines, heads, labels, strict=True):
        content = lines[place].rstrip("\r\n")
        line_end = lines[place][len(content) :]
        columns = content.split("\t")
        arc = [str(head), label]
        if columns[HEAD : LABEL + 1] != arc and ENHANCED_ARC.match(columns[DEPS]):
            columns[DEPS] = "_"
        columns[HEAD : LABEL + 1] = arc
        lines[place] = "\t".join(columns) + line_end
    return "".join(lines)
