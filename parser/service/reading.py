"""The sentences of a request: of texts, as words, and in CoNLL-U. They are read one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from io import BytesIO, StringIO
from types import MappingProxyType
from typing import Any, NamedTuple

from parser.api.parser import refuse_surrogates, sentence_of
from parser.api.tree import COMMENTS
from parser.service.typed_messages import GivenSentence
from parser.text.reading import PART_BYTES, TextReader, text_parts
from parser.text.sentences import TokenizedSentence, as_sentence
from parser.treebank.conllu import bounded_blocks, parse_block
from parser.treebank.faults import Faults
from parser.treebank.sentence import Sentence

KEPT_WORDS = 4_096
"""Of an input that is read before it is parsed. A longer one is read again, as memory is bounded."""

UNDIVIDED = 20_000
"""Characters without a blank: more than a paragraph has of a language without them. A tokenizer reads them at
once, and all others wait."""


class ReadSentence(NamedTuple):
    sentence: Sentence
    found: TokenizedSentence | None = None
    """Only of a text."""
    text: int | None = None
    """Number of its text in the request, from 0."""
    comments: Mapping[str, Any] = MappingProxyType({})
    """What is known of the sentence as a whole, see `COMMENTS`."""


def text_sentences(
    reader: TextReader, texts: Iterable[str], one_sentence_per_line: bool = False
) -> Iterator[ReadSentence]:
    """Those of a text are numbered from 1. Raises ValueError."""
    for number, text in enumerate(texts):
        refuse_surrogates(text, f"text {number + 1}")
        if any(len(piece) > UNDIVIDED for piece in text.split()):
            raise ValueError(f"text {number + 1} has more than {UNDIVIDED:,} characters without a blank")
        pieces = iter(partial(BytesIO(text.encode()).read, PART_BYTES), b"")
        parts = text_parts(pieces, f"text {number + 1}", one_sentence_per_line)
        found = (one for part in parts for one in reader.sentences(part.content, part.offset))
        for ordinal, one in enumerate(found, 1):
            yield ReadSentence(as_sentence(one, ordinal), one, number)


def word_sentences(given: Iterable[GivenSentence]) -> Iterator[ReadSentence]:
    """Raises ValueError."""
    for number, one in enumerate(given, 1):
        columns = one.model_dump(exclude_none=True)
        comments = {name: columns[name] for name in COMMENTS if name in columns}
        yield ReadSentence(sentence_of(columns, number), comments=comments)


def conllu_sentences(content: str) -> Iterator[ReadSentence]:
    """Raises TreebankError, a ValueError, at the end if there is a fault."""
    refuse_surrogates(content, "the CoNLL-U")
    faults = Faults()
    for block in bounded_blocks(StringIO(content, newline="\n"), faults):
        parsed = parse_block(block, tree=False)
        if not isinstance(parsed, Sentence):
            faults.add(parsed)
        elif not faults.total:
            yield ReadSentence(parsed, comments={"sent_id": parsed.identifier})
    faults.check("data")


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
