"""The sentences of a request: of texts, as words, and in CoNLL-U. They are read one after the other."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from io import StringIO
from types import MappingProxyType
from typing import Any, NamedTuple

from parser.api.parser import refuse_surrogates, sentence_of
from parser.api.tree import COMMENTS
from parser.service.typed_messages import GivenSentence
from parser.text.reading import TextFormat, TextReader, text_parts
from parser.text.sentences import TokenizedSentence, as_sentence
from parser.treebank.conllu import SentenceCheck, bounded_blocks, comment, parse_block
from parser.treebank.conllu_output import with_its_end
from parser.treebank.faults import Faults
from parser.treebank.sentence import Sentence

KEPT_WORDS = 4_096
"""Of an input that is read before it is parsed. A longer one is read again, as memory is bounded."""

UNDIVIDED = 20_000
"""Characters without a blank, or of a line that is a sentence: more than a paragraph has of a language
without blanks. A tokenizer reads them at once, and all others wait."""

PIECE = 1 << 16
"""Characters, about, of what is looked at in one go. In a longer time other threads would have to wait."""
SPACE = re.compile(r"\s")


class ReadSentence(NamedTuple):
    sentence: Sentence
    found: TokenizedSentence | None = None
    """Only of a text."""
    text: int | None = None
    """Number of its text in the request, from 0."""
    comments: Mapping[str, Any] = MappingProxyType({})
    """What is known of the sentence as a whole, see `COMMENTS`."""


def pieces_of(text: str) -> Iterator[str]:
    """The text in pieces, of which all but the first begin with white space."""
    start = 0
    while start < len(text):
        found = SPACE.search(text, start + PIECE)
        end = found.start() if found else len(text)
        yield text[start:end]
        start = end


def text_sentences(reader: TextReader, form: TextFormat, texts: Iterable[str]) -> Iterator[ReadSentence]:
    """Those of a text are numbered from 1. form: that of the reader. Raises ValueError."""
    for number, text in enumerate(texts):
        if not text or text.isspace():
            continue  # at once: a request may have a million of them, and others wait
        name = f"text {number + 1}"
        refuse_surrogates(text, name)
        _refuse_undivided(text, name, form)
        parts = text_parts(map(str.encode, pieces_of(text)), name, one_sentence_per_line=form != "raw")
        found = (one for part in parts for one in reader.sentences(part.content, part.offset))
        for ordinal, one in enumerate(found, 1):
            yield ReadSentence(as_sentence(one, ordinal), one, number)


def _refuse_undivided(text: str, name: str, form: TextFormat) -> None:
    """Raises ValueError. Of tokenized text there is nothing that a tokenizer has to find."""
    if form == "raw":
        lacking, lengths = "blank", (len(word) for piece in pieces_of(text) for word in piece.split())
    elif form == "one-sentence-per-line":
        lacking, lengths = "line end", (len(line) for line in text.split("\n"))
    else:
        return
    if max(lengths, default=0) > UNDIVIDED:
        raise ValueError(f"{name} has more than {UNDIVIDED:,} characters without a {lacking}")


def word_sentences(
    given: Iterable[GivenSentence], faults: Callable[[Sentence], Sequence[tuple[int, str]]]
) -> Iterator[ReadSentence]:
    """faults: of what is given of its tree, see `ConstraintReader.faults`. Raises ValueError."""
    for number, one in enumerate(given, 1):
        columns = {name: value for name, value in one.items() if value is not None}
        comments = {name: columns[name] for name in COMMENTS if name in columns}
        sentence = sentence_of(columns, number)
        for word, message in faults(sentence):
            raise ValueError(f"sentence {number}: word {word}: {message}")
        yield ReadSentence(sentence, comments=comments)


def conllu_sentences(content: str, name: str, check: SentenceCheck | None = None) -> Iterator[ReadSentence]:
    """name: of the field of the request, for messages. check: of what is given of trees, without which they
    are not read. Raises TreebankError, a ValueError, at the end if there is a fault.
    """
    refuse_surrogates(content, "the CoNLL-U")
    faults = Faults()
    for block in bounded_blocks(StringIO(content, newline="\n"), faults):
        parsed = parse_block(block, tree=check is not None, partial=check)
        if not isinstance(parsed, Sentence):
            faults.add(parsed)
        elif not faults.total:
            comments = {key: comment(block.lines, key) for key in COMMENTS}
            yield ReadSentence(with_its_end(parsed), comments=comments)
    faults.check(name)


def read_in_advance(read: Callable[[], Iterator[ReadSentence]]) -> Iterator[ReadSentence]:
    """The sentences, after all have been read once: what is wrong with one is told before the others are
    parsed. Raises what reading raises.
    """
    kept: list[ReadSentence] = []
    words = 0
    for one in read():
        words += len(one.sentence)
        if words <= KEPT_WORDS:
            kept.append(one)
    return iter(kept) if words <= KEPT_WORDS else read()
