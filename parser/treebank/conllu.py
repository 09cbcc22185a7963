"""Files in CoNLL-U or CoNLL-X <-> sentences.

A pass over the lines of a sentence validates and remembers them; the `conllu` library parses what
passed. Files are written from the remembered lines, so that nothing is lost that we do not understand.
"""

from __future__ import annotations

import gzip
import re
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TextIO

import conllu

from parser.treebank.faults import DEPS, HEAD, LABEL, Fault, Row, TreebankError, sentence_faults
from parser.treebank.sentence import NO_HEAD, Sentence

BYTE_ORDER_MARK = "\ufeff"
PARSED_FIELDS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel")
SENTENCE_ID = re.compile(r"#\s*sent_id\s*=\s*(.*\S)")
ENHANCED_ARC = re.compile(r"[0-9.]+:")


@contextmanager
def open_text(path: str) -> Iterator[TextIO]:
    """Open a file, a `.gz` file or "-", standard input; bytes that are not UTF-8 become surrogates.

    Raises ValueError for a broken `.gz` file.
    """
    # newline="\n": lines end at \n alone, and a \r before it is kept for the output.
    how = {"mode": "rt", "encoding": "utf-8", "errors": "surrogateescape", "newline": "\n"}
    if path == "-":
        sys.stdin.reconfigure(encoding="utf-8", errors="surrogateescape", newline="\n")  # type: ignore[union-attr]
        yield sys.stdin
    elif path.endswith(".gz"):
        try:
            with gzip.open(path, **how) as file:  # type: ignore[call-overload]
                yield file
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(f"{path}: not a whole gzip file: {error}") from None
    else:
        with open(path, **how) as file:  # type: ignore[call-overload]
            yield file


@dataclass(frozen=True)
class Block:
    """The lines of one sentence and the blank lines behind it; `line` is the first one's number."""

    line: int
    lines: tuple[str, ...]
    ordinal: int

    @property
    def identifier(self) -> str:
        for line in self.lines:
            if match := SENTENCE_ID.match(line):
                return match[1]
        return f"#{self.ordinal}"


def blocks(lines: Iterable[str]) -> Iterator[Block]:
    """Cut a file into sentences. The blocks' lines, joined, are the file."""
    block: list[str] = []
    first_line, ordinal, has_content, ended = 1, 1, False, False
    for number, line in enumerate(lines, 1):
        blank = not line.lstrip(BYTE_ORDER_MARK).strip()
        if ended and not blank:
            yield Block(first_line, tuple(block), ordinal)
            block, first_line, ordinal, ended = [], number, ordinal + 1, False
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
            rows.append((place, Row(block.line + place, tuple(content.split("\t")))))
    return rows


def parse_block(block: Block, tree: bool) -> Sentence | list[Fault]:
    """A block's sentence, or all that is wrong with it."""
    placed_rows = block_rows(block)
    rows = [row for _, row in placed_rows]
    if not rows:
        return [Fault(block.line, block.identifier, "comments without words")]
    faults = sentence_faults(rows, block.identifier, tree)
    if faults:
        return faults
    tokens = parse_rows(rows, tree)
    words = [(place, token) for (place, _), token in zip(placed_rows, tokens, strict=True) if is_word(token)]
    return Sentence(
        forms=tuple(token["form"] for _, token in words),
        upos=tuple(token["upos"] for _, token in words),
        xpos=tuple(token["xpos"] for _, token in words),
        heads=tuple(token["head"] if tree else NO_HEAD for _, token in words),
        labels=tuple(token["deprel"] if tree else "_" for _, token in words),
        identifier=block.identifier,
        line=block.line,
        lines=block.lines,
        word_lines=tuple(place for place, _ in words),
    )


def parse_rows(rows: Sequence[Row], tree: bool) -> conllu.TokenList:
    """The library's tokens of validated rows."""

    def as_it_stands(columns: list[str], place: int) -> str:
        return columns[place]

    kept = [name for name in PARSED_FIELDS if name not in ("id", "head") or (name == "head" and not tree)]
    text = "\n".join("\t".join(row.columns[:8]) for row in rows)
    # The library takes two spaces for a column's end: within a form, blanks count as one.
    text = re.sub(" {2,}", " ", text)
    parsed = conllu.parse(text, fields=PARSED_FIELDS, field_parsers=dict.fromkeys(kept, as_it_stands))
    return parsed[0]


def is_word(token: conllu.Token) -> bool:
    """Whether it is a syntactic word, not a multiword token or an empty node."""
    return isinstance(token["id"], int)


def stream_sentences(path: str, tree: bool = True) -> Iterator[Sentence]:
    """Read a file sentence by sentence.

    tree: whether HEAD and DEPREL are needed. Raises TreebankError at the first faulty sentence.
    """
    with open_text(path) as file:
        for block in blocks(file):
            parsed = parse_block(block, tree)
            if not isinstance(parsed, Sentence):
                raise TreebankError(path, parsed)
            yield parsed


def read_treebank(path: str) -> list[Sentence]:
    """Read all trees of a file. Raises TreebankError with every fault of the file, FileNotFoundError."""
    sentences: list[Sentence] = []
    faults: list[Fault] = []
    with open_text(path) as file:
        for block in blocks(file):
            parsed = parse_block(block, tree=True)
            if isinstance(parsed, Sentence):
                sentences.append(parsed)
            else:
                faults.extend(parsed)
    if not sentences and not faults:
        faults.append(Fault(1, "-", "the file holds no sentence"))
    if faults:
        raise TreebankError(path, faults)
    return sentences


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
