"""Reads the sentences of a request, one after the other: from texts, words or CoNLL-U."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple

from parser.api.sentences import refuse_surrogates, sentence_of
from parser.api.tree import COMMENTS
from parser.service.typed_messages import GivenSentence
from parser.text.reading import BY_LINES, TextFormat, TextReader, text_parts
from parser.text.tokenizer import Token, TokenizedSentence, as_sentence
from parser.treebank.conllu import SentenceCheck, comment, sentences_in
from parser.treebank.conllu_faults import Faults
from parser.treebank.conllu_output import with_its_end
from parser.treebank.sentence import Sentence

KEPT_WORDS = 4_096
"""Maximum words that are kept when an input is read in advance. A longer input is read twice, to bound
memory."""
UNDIVIDED = 20_000
"""Maximum characters without a blank, or of a line that is a sentence: more than a paragraph has in a
language without blanks. A tokenizer reads them at once, while all other requests wait."""
PIECE = 1 << 16
"""Approximate number of characters that are searched at once. More would keep other threads waiting."""
MARKS = 100
"""Maximum number of combining marks after a letter: sorting them takes time quadratic in their number."""
SPACE, LINE_END = re.compile(r"\s"), re.compile("\n")


class InputSentence(NamedTuple):
    sentence: Sentence
    tokenized: TokenizedSentence | None = None
    """The sentence with its tokens, if it is from a text."""
    text: int | None = None
    """Index of its text in the request, from 0."""
    comments: Mapping[str, Any] = MappingProxyType({})
    """Values known for the whole sentence, see `COMMENTS`."""


def text_sentences(
    reader: TextReader,
    form: TextFormat,
    texts: Iterable[str],
    told: Callable[[Token], str] = attrgetter("miscellaneous"),
) -> Iterator[InputSentence]:
    """Yield the sentences of texts, numbered from 1 in each text. form: the format that the reader reads.
    told: returns the column MISC of a token. Raises ValueError.
    """
    for number, text in enumerate(texts):
        if not text or text.isspace():
            continue  # quickly: a request may contain a million of them while others wait
        name = f"text {number + 1}"
        refuse_surrogates(text, name)
        refuse_undivided(text, name, form)
        parts = text_parts(map(str.encode, pieces_of(text)), name, by_lines=form in BY_LINES)
        sentences = (one for part in parts for one in reader.sentences(part.content, part.offset))
        for ordinal, one in enumerate(sentences, 1):
            yield InputSentence(as_sentence(one, ordinal, told), one, number)


def word_sentences(
    given: Iterable[GivenSentence], faults: Callable[[Sentence], Sequence[tuple[int, str]]]
) -> Iterator[InputSentence]:
    """Yield the sentences of a request that gives words. faults: returns the faults in the given part of a
    sentence's tree, see `ConstraintReader.faults`. Raises ValueError.
    """
    for number, one in enumerate(given, 1):
        columns = {name: value for name, value in one.items() if value is not None}
        comments = {name: columns[name] for name in COMMENTS if name in columns}
        sentence = sentence_of(columns, number)
        for word, message in faults(sentence):
            raise ValueError(f"sentence {number}: word {word}: {message}")
        yield InputSentence(sentence, comments=comments)


def conllu_sentences(content: str, name: str, check: SentenceCheck | None = None) -> Iterator[InputSentence]:
    """Yield the sentences of CoNLL-U. name: the field of the request, for messages. check: checks the given
    parts of trees; without it, trees are not read. Raises TreebankError, a ValueError, at the end if there
    is a fault.
    """
    refuse_surrogates(content, "the CoNLL-U")
    faults = Faults()
    for sentence in sentences_in(content, faults, tree=check is not None, partial=check):
        comments = {key: comment(sentence.lines, key) for key in COMMENTS}
        yield InputSentence(with_its_end(sentence), comments=comments)
    faults.check(name)


def read_in_advance(read: Callable[[], Iterator[InputSentence]]) -> Iterator[InputSentence]:
    """Return the sentences after reading all of them once, so that an error in one is reported before the
    others are parsed. Raises what reading raises.
    """
    kept: list[InputSentence] = []
    words = 0
    for one in read():
        words += len(one.sentence)
        if words <= KEPT_WORDS:
            kept.append(one)
    return iter(kept) if words <= KEPT_WORDS else read()


def refuse_undivided(text: str, name: str, form: TextFormat) -> None:
    """Raises ValueError if a part is too long for a tokenizer. Tokenized text does not need one.

    name: that of the text, for the message.
    """
    if form == "tokenized":
        return
    if form in BY_LINES:
        lacking, longest = "line end", longest_between(LINE_END, text)
    else:
        lacking, longest = "blank", longest_between(SPACE, text)
    if longest > UNDIVIDED:
        raise ValueError(f"{name} has more than {UNDIVIDED:,} characters without a {lacking}")


def longest_between(ends: re.Pattern[str], text: str) -> int:
    """Return the greatest number of characters between two matches. It lets other threads run meanwhile."""
    longest = start = 0
    for end in ends.finditer(text):
        longest, start = max(longest, end.start() - start), end.end()
    return max(longest, len(text) - start)


def pieces_of(text: str) -> Iterator[str]:
    """Yield the text in pieces. All but the first start with white space."""
    start = 0
    while start < len(text):
        space = SPACE.search(text, start + PIECE)
        end = space.start() if space else len(text)
        yield text[start:end]
        start = end


def normalized(text: str) -> str:
    """Return the text in NFC. Raises ValueError for long parts without a blank, and for too many marks."""
    refuse_undivided(text, "data", "raw")
    pieces = []
    for piece in pieces_of(text):  # white space never combines with what precedes it
        if not piece.isascii():
            for is_mark, run in groupby(piece, key=lambda character: unicodedata.combining(character) > 0):
                if is_mark and sum(1 for _ in run) > MARKS:
                    raise ValueError(f"data has more than {MARKS} combining marks one after the other")
        pieces.append(unicodedata.normalize("NFC", piece))
    return "".join(pieces)
