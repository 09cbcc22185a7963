"""Validation of the lines of a sentence, and messages for users."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from parser.system.console import LinesError, as_name, counted, listed, quoted
from parser.treebank.sentence import (
    BLANK,
    EMPTY_ID,
    FEATS,
    FORM,
    HEAD,
    ID,
    LABEL,
    NO_HEAD,
    RANGE_ID,
    TITLES,
    UPOS,
    WORD_ID,
    XPOS,
    label_fault,
)

MAX_COLUMNS = len(TITLES) + 1
"""A line is not split into more columns."""
SHOWN_FAULTS = 50
SHOWN_WORDS = 10
"""Maximum number of word numbers in one message."""

UNDECODED = re.compile("[\udc80-\udcff]")
"""Surrogates: `text_files.open_text` decodes bytes that are not UTF-8 to these."""
IN_NO_VALUE = {"\0": "NUL", "\t": "a tab", "\n": "a line end", "\r": "a line end"}
BLANK_VALUE = re.compile("[\\s\ufeff]+")
"""White space and byte-order marks. Other invisible characters can be words of a text."""
HEAD_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")
NO_COLUMNS = "no tabs: a line needs ten columns, separated by tabs, not spaces"
"""The message for a file that is not a treebank."""
MAY_BE_UNKNOWN = "; only files to train on may lack it, with `treebank.partial: true` or `check --partial`"
"""The end of a message about a HEAD or a DEPREL that is `_`."""


@dataclass(frozen=True)
class Fault:
    """An error in a treebank file."""

    line: int
    """0 for a fault of the whole file."""
    sentence: str
    """The identifier of the sentence; empty for a fault outside sentences."""
    message: str

    def told(self, path: str) -> str:
        """The fault as one line of a message. path: the path of the file."""
        where = f"{path}:{self.line}" if self.line else path
        sentence = f"sentence {as_name(self.sentence)}: " if self.sentence else ""
        return f"{where}: {sentence}{self.message}"


class TreebankError(LinesError):
    """A file that is not valid CoNLL-U. Carries the first faults."""

    def __init__(self, path: str, faults: Sequence[Fault], total: int | None = None):
        """total: the number of all faults if `faults` contains only the first ones."""
        self.faults = tuple(faults)
        more = (total or len(faults)) - min(len(faults), SHOWN_FAULTS)
        shown = [fault.told(path) for fault in faults[:SHOWN_FAULTS]]
        if more:
            shown.append(f"{path}: and {counted(more, 'more fault')}")
        super().__init__(*shown)


@dataclass
class Faults:
    """The first faults of a file, and the total number of faults."""

    first: list[Fault] = field(default_factory=list)
    total: int = 0
    ended: bool = False
    """Whether reading stopped after the last fault."""

    def add(self, faults: Sequence[Fault]) -> None:
        self.total += len(faults)
        self.first += faults[: SHOWN_FAULTS - len(self.first)]

    def end(self, fault: Fault) -> None:
        """Add a fault after which nothing is read."""
        self.add([fault])
        self.ended = True

    def merge(self, other: Faults) -> None:
        """Add the faults of a later part of the file, unless reading has stopped before it."""
        if self.ended:
            return
        self.total += other.total
        self.ended = other.ended
        self.first += other.first[: SHOWN_FAULTS - len(self.first)]

    def check(self, path: str) -> None:
        """Raises TreebankError if there are any faults."""
        if self.total:
            raise TreebankError(path, self.first, self.total)


class Row(NamedTuple):
    """A line, split into columns."""

    line: int
    """Line number in the file, from 1."""
    columns: tuple[str, ...]
    """The columns. If there are more than MAX_COLUMNS, an additional one holds the rest of the line."""
    width: int
    """The number of columns in the file."""
    is_word: bool
    """Whether this is the line of a syntactic word, not of a multiword token or an empty node."""
    is_ascii: bool

    @classmethod
    def of(cls, line: int, content: str) -> Row:
        """content: the line without its line end."""
        # A line with too many columns is reported as a fault, so it need not be split completely.
        columns = content.split("\t", MAX_COLUMNS)
        width = len(columns) if len(columns) <= MAX_COLUMNS else content.count("\t") + 1
        return cls(line, tuple(columns), width, bool(WORD_ID.fullmatch(columns[ID])), content.isascii())


def undecoded(text: str) -> str | None:
    """Describe the first byte that is not UTF-8; None if there is none."""
    surrogate = None if text.isascii() else UNDECODED.search(text)
    if not surrogate:
        return None
    offset = len(text[: surrogate.start()].encode("utf-8", "surrogateescape"))
    byte = ord(surrogate[0]) - 0xDC00
    return f"byte 0x{byte:02x}, number {offset + 1} of the line, is not UTF-8; convert the file to UTF-8"


def value_fault(value: str) -> str | None:
    """Why this value cannot be a word or a tag, as the end of a message; None if it can."""
    if not value:
        return "is empty; write _ for an empty value"
    if BLANK_VALUE.fullmatch(value):
        return f"{quoted(value)} is blank; write _ for an empty value"
    if value != value.strip():
        return f"{quoted(value)} begins or ends with a blank"
    for character, name in IN_NO_VALUE.items():
        if character in value:
            return f"{quoted(value)} has {name}"
    return None


def row_faults(row: Row, sentence: str) -> Iterator[Fault]:
    """Faults that can be found in one line without its context."""

    def fault(message: str) -> Fault:
        return Fault(row.line, sentence, message)

    if message := undecoded("\t".join(row.columns)):
        yield fault(message)
    if len(row.columns) != len(TITLES):
        if len(row.columns) == 1:
            yield fault(NO_COLUMNS)
        else:
            yield fault(f"{row.width:,} columns instead of {len(TITLES)}")
        return
    for name, column in zip(TITLES, row.columns, strict=True):
        if not column:
            yield fault(f"{name} {value_fault(column)}")
    for column_index in (FORM, UPOS, XPOS, FEATS):
        if row.columns[column_index] and (message := value_fault(row.columns[column_index])):
            yield fault(f"{TITLES[column_index]} {message}")
    identifier = row.columns[ID]
    if not any(pattern.fullmatch(identifier) for pattern in (WORD_ID, RANGE_ID, EMPTY_ID)):
        yield fault(f"ID {quoted(identifier)} is not of the form 1, 1-2 or 1.1")


def is_usual(row: Row) -> bool:
    """Whether the row is a word without `row_faults`: a quick check that most lines pass."""
    columns = row.columns
    return (
        row.is_word
        and row.width == len(TITLES)
        and "" not in columns
        and (row.is_ascii or not undecoded("\t".join(columns)))
        and columns[FORM].isprintable()
        and columns[FORM][0] != " " != columns[FORM][-1]
        and (tags := columns[UPOS] + columns[XPOS] + columns[FEATS]).isprintable()
        and " " not in tags
    )


def order_faults(rows: Sequence[Row], sentence: str) -> Iterator[Fault]:
    """Check that the ids are 1, 2, 3, ..., with ranges and empty nodes in order."""
    last_word, last_empty, range_end = 0, 0, 0
    word_total = sum(row.is_word for row in rows)
    for row in rows:
        identifier = row.columns[ID]
        if identifier == str(last_word + 1):
            last_word, last_empty = last_word + 1, 0
        elif match := RANGE_ID.fullmatch(identifier):
            first, last = int(match[1]), int(match[2])
            if first != last_word + 1 or last < first or last > word_total or first <= range_end:
                yield Fault(row.line, sentence, f"range {identifier} does not fit the words around it")
            range_end = max(range_end, last)
        elif match := EMPTY_ID.fullmatch(identifier):
            if (int(match[1]), int(match[2])) != (last_word, last_empty + 1):
                expected = f"{last_word}.{last_empty + 1}"
                yield Fault(row.line, sentence, f"empty node {identifier}; expected {expected}")
            last_empty = int(match[2])
        else:
            yield Fault(row.line, sentence, f"ID {identifier}; expected {last_word + 1}")
            last_word, last_empty = int(identifier), 0


def head_fault(head: str, word: int, words: int) -> str | None:
    """Why this cannot be the HEAD of a word; None if it can. words: number of words in the sentence."""
    if not HEAD_NUMBER.fullmatch(head):
        return f"HEAD {quoted(head)} is not the number of a word"
    if int(head) > words:
        return f"HEAD {head} is beyond the last word, {words}"
    return f"word {word} is its own head" if int(head) == word else None


def tree_faults(words: Sequence[Row], sentence: str, several_roots: bool, partial: bool) -> Iterator[Fault]:
    """Check that HEAD and DEPREL form a tree, with a single root unless `several_roots`.

    partial: whether any HEAD or DEPREL may be `_`. Then only each word by itself is checked.
    """
    heads = []
    for row in words:
        head, label, number = row.columns[HEAD], row.columns[LABEL], int(row.columns[ID])
        faults = head_fault(head, number, len(words)), label_fault(label)
        for value, message in zip((head, label), faults, strict=True):
            if message and not (partial and value == BLANK):
                yield Fault(row.line, sentence, message + MAY_BE_UNKNOWN * (value == BLANK))
        if not faults[0]:
            heads.append(int(head))
    if not partial and len(heads) == len(words):
        yield from head_faults(heads, [row.line for row in words], sentence, several_roots)


def head_faults(
    heads: Sequence[int], lines: Sequence[int], sentence: str, several_roots: bool = False
) -> Iterator[Fault]:
    """Check that heads form a tree, or can be part of one if some are `NO_HEAD`.

    heads[0] is the head of word 1. lines: line numbers of the words in the file.
    """
    roots = [number for number, head in enumerate(heads, 1) if head == 0]
    if not roots and NO_HEAD not in heads:
        yield Fault(lines[0], sentence, "no word has HEAD 0: the tree has no root")
    if len(roots) > 1 and not several_roots:
        message = (
            f"{len(roots)} words have HEAD 0 ({listed(roots, SHOWN_WORDS)}): one root is allowed; `roots: "
            "attach-to-first` attaches the others to the first"
        )
        yield Fault(lines[roots[1] - 1], sentence, message)
    for cycle in cycles(heads):
        message = f"the heads of the words {listed(cycle, SHOWN_WORDS)} form a cycle"
        yield Fault(lines[cycle[0] - 1], sentence, message)


def cycles(heads: Sequence[int]) -> list[list[int]]:
    """Find all cycles, each as a sorted list of words. heads: from word 1; they can be `NO_HEAD`."""
    closed = []
    visited_from = [0] * (len(heads) + 1)
    for start in range(1, len(heads) + 1):
        word = start
        while word > 0 and not visited_from[word]:
            visited_from[word] = start
            word = heads[word - 1]
        if word > 0 and visited_from[word] == start:
            cycle = [word]
            while (following := heads[cycle[-1] - 1]) != word:
                cycle.append(following)
            closed.append(sorted(cycle))
    return closed


def sentence_faults(
    rows: Sequence[Row], sentence: str, tree: bool, several_roots: bool = False, partial: bool = False
) -> list[Fault]:
    """All faults in the rows of a sentence. HEAD and DEPREL are checked if `tree`, see `tree_faults`."""
    faults = [fault for row in rows if not is_usual(row) for fault in row_faults(row, sentence)]
    if faults:
        return faults
    faults.extend(order_faults(rows, sentence))
    words = [row for row in rows if row.is_word]
    if not faults and not words:
        faults.append(Fault(rows[0].line, sentence, "empty nodes without words"))
    if not faults and tree:
        faults.extend(tree_faults(words, sentence, several_roots, partial))
    return faults
