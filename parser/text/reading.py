"""Reading the sentences of a text, in parts of bounded size: raw, one sentence per line, or tokenized."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain, count
from typing import Literal, NamedTuple

from parser.text.line_breaks import divided_at_lines, with_markers
from parser.text.tokenizer import Paragraph, TokenizedSentence, Tokenizer, as_sentence, stripped
from parser.text.treebank_text import divided_text, treebank_text
from parser.treebank.conllu import LAST_SPACE
from parser.treebank.sentence import Sentence
from parser.treebank.text_files import (
    BYTE_ORDER_MARK,
    MAX_LINE_LENGTH,
    TOO_LONG,
    chunks_as_they_come,
    open_bytes,
    waits,
)

PART_BYTES = 1 << 18
"""About two thousand sentences. Larger parts fill batches better; smaller ones let processes end together."""
LEAST_SHARE = 1 << 12
"""The smallest share of a part, in characters: about 32 sentences, which are parsed together."""
LONGEST_PARAGRAPH = 1 << 19
"""In bytes. A longer paragraph is divided at the end of a line, or else at a blank: a paragraph is in memory
as a whole."""
BLANK_LINE = re.compile(rb"\n[ \t\r]*\n")
END_OF_LINE, END_OF_PARAGRAPH = re.compile(r"\n"), re.compile(BLANK_LINE.pattern.decode())
CUTS = b"\n", b" "
CONTINUATION, MASK = 0x80, 0xC0
"""The two highest bits of a UTF-8 byte that continues a character, and their mask."""
MOST_BYTES = 4
"""Maximum number of bytes of a character."""
TextFormat = Literal["raw", "wrapped", "one-paragraph-per-line", "one-sentence-per-line", "tokenized"]
"""Raw: paragraphs end at blank lines, and at line ends that look meant. Wrapped: at blank lines alone."""
SENTENCES_IN_LINES: tuple[TextFormat, ...] = "one-sentence-per-line", "tokenized"
BY_LINES: tuple[TextFormat, ...] = *SENTENCES_IN_LINES, "one-paragraph-per-line"
BLANK_LINES = re.compile(r"\n\s*\n")
"""The separator of paragraphs."""
NUL = 0
"""A character that CoNLL-U cannot contain."""
SPACES = [code for code in range(LAST_SPACE + 1) if chr(code).isspace() and code != ord("\n")]
BLANKS = dict.fromkeys([NUL, *SPACES, ord(BYTE_ORDER_MARK)], " ")
"""Characters that are replaced by a blank. Byte-order marks remain when files are joined."""


class TextPart(NamedTuple):
    """Consecutive paragraphs of a text."""

    offset: int
    """Number of characters of the text before the part."""
    content: str


def stream_text(path: str, by_lines: bool = False) -> Iterator[TextPart]:
    """Read a text part by part: uncompressed, `.gz` or, for "-", from standard input.

    by_lines: whether parts can end after any line, not only after paragraphs. Raises ValueError,
    with the line number, if the text is not UTF-8.
    """
    with open_bytes(path) as file:
        pieces = iter(partial(file.read1, PART_BYTES), b"")
        yield from text_parts(pieces, path, by_lines)


def text_parts(pieces: Iterable[bytes], name: str, by_lines: bool = False) -> Iterator[TextPart]:
    """Like `stream_text`, but from the pieces of a text. name: the name of the text, for messages."""
    yield from filter(None, _parts(name, _contents(pieces, by_lines), by_lines))


def shares(part: TextPart, processes: int, by_lines: bool = False) -> Iterator[TextPart]:
    """Divide a part between paragraphs or lines into about equal ones, at most `processes`."""
    content, start = part.content, 0
    size = max(LEAST_SHARE, -(-len(content) // processes))
    end_of = END_OF_LINE if by_lines else END_OF_PARAGRAPH
    while end := end_of.search(content, start + size - 1):
        yield TextPart(part.offset + start, content[start : end.end()])
        start = end.end()
    if start < len(content):
        yield TextPart(part.offset + start, content[start:])


def text_as_it_comes(path: str, by_lines: bool = False) -> Iterator[TextPart | None]:
    """Like `stream_text`, but yields None, after all complete parts, if standard input must be waited for."""
    if waits(path):
        contents = _contents(chunks_as_they_come(), by_lines)
        yield from _parts(path, contents, by_lines)
    else:
        yield from stream_text(path, by_lines)


def _parts(path: str, contents: Iterable[bytes | None], by_lines: bool) -> Iterator[TextPart | None]:
    offset, line = 0, 1
    for content in contents:
        if content is None:
            yield None
            continue
        if b"\n" not in content and len(content) > MAX_LINE_LENGTH * MOST_BYTES:
            raise ValueError(f"{path}:{line}: {TOO_LONG}")
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError as error:
            line += content.count(b"\n", 0, error.start)
            byte = content[error.start]
            message = f"byte 0x{byte:02x} is not UTF-8; convert the file to UTF-8"
            raise ValueError(f"{path}:{line}: {message}") from None
        for number, content_line in enumerate(text.split("\n") if by_lines else (), line):
            if len(content_line) > MAX_LINE_LENGTH:
                raise ValueError(f"{path}:{number}: {TOO_LONG}")
        line += content.count(b"\n")
        yield TextPart(offset, text)
        offset += len(text)


def _contents(pieces: Iterable[bytes | None], by_lines: bool) -> Iterator[bytes | None]:
    """The bytes of the parts. Each part except the last one ends after a line that can end it."""
    pending, searched, most = b"", 0, PART_BYTES
    for piece in pieces:
        pending += piece or b""
        if piece is not None and len(pending) < most:
            continue
        if end := pending.rfind(b"\n") + 1 if by_lines else _last_end(pending, searched):
            yield pending[:end]
            pending, searched, most = pending[end:], 0, PART_BYTES
        elif by_lines and len(pending) > MAX_LINE_LENGTH * MOST_BYTES:
            yield pending  # `_parts` refuses it
            pending = b""
        elif piece is not None:  # no blank line: read more at a time, so that the search is linear
            searched, most = max(0, len(pending) - PART_BYTES), 2 * len(pending)
        if piece is None:
            yield None
    if pending:
        yield pending


def _last_end(content: bytes, start: int) -> int:
    """The end of the last paragraph that is complete, or 0 if there is none yet."""
    end = 0
    for blank in BLANK_LINE.finditer(content, start):
        end = blank.end()
    if end or len(content) < LONGEST_PARAGRAPH:
        return end
    for cut in CUTS:
        if end := content.rfind(cut) + 1:
            return end
    end = len(content) - 1
    while end and content[end] & MASK == CONTINUATION:
        end -= 1
    return end


class TextReader:
    """Divides texts into sentences."""

    def __init__(self, form: TextFormat, tokenizer: Tokenizer):
        self._form, self._tokenizer = form, tokenizer

    def of_form(self, form: TextFormat) -> TextReader:
        """A reader of another format with the same tokenizer."""
        return TextReader(form, self._tokenizer)

    def sentences(self, text: str, offset: int = 0) -> Iterator[TokenizedSentence]:
        """The sentences of a text, or of a part of a text that begins after `offset` characters.

        Paragraphs end sentences, see `TextFormat`.
        """
        for code, blank in BLANKS.items():  # far faster than `str.translate`
            text = text.replace(chr(code), blank)
        is_sentence = self._form in SENTENCES_IN_LINES
        paragraphs = _paragraphs(text, offset, END_OF_LINE if self._form in BY_LINES else BLANK_LINES)
        if self._form == "raw":
            paragraphs = chain.from_iterable(map(divided_at_lines, paragraphs))
        sentences = self._tokenizer.sentences(paragraphs, is_sentence)
        yield from sentences if is_sentence else with_markers(sentences)

    def text_of(self, treebank: Iterable[Sentence]) -> str:
        """The text of a treebank: divided if the tokenizer reads only divided text, else raw."""
        return (divided_text if self._tokenizer.reads_divided_text else treebank_text)(treebank)


def read_parts(reader: TextReader, parts: Iterable[TextPart]) -> Iterator[Sentence]:
    """The sentences of a text of any length, numbered from 1."""
    return (one for one in read_parts_as_they_come(reader, parts) if one is not None)


def read_parts_as_they_come(
    reader: TextReader, parts: Iterable[TextPart | None]
) -> Iterator[Sentence | None]:
    """Like `read_parts`, but also yields each None of the parts."""
    ordinals = count(1)
    for part in parts:
        if part is None:
            yield None
            continue
        for sentence in reader.sentences(part.content, part.offset):
            yield as_sentence(sentence, next(ordinals))


def _paragraphs(text: str, offset: int, separator: re.Pattern[str]) -> Iterator[Paragraph]:
    """The paragraphs, or lines, of a text that begins after `offset` characters."""
    length, start = len(text), 0
    for end, next_start in chain((each.span() for each in separator.finditer(text)), [(length, length)]):
        yield from stripped(text[start:end], offset + start)
        start = next_start
