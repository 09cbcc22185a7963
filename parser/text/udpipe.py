"""The tokenizer of UDPipe 1 (Straka & Straková 2017), from the package `ufal.udpipe`."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from types import ModuleType

from parser.text.sentences import Token, TokenizedSentence

MISSING = "reading raw text needs the package ufal.udpipe: pip install -e '.[text]'"
ID, FORM, MISC = 0, 1, 9
RANGE = "TokenRange="


def library() -> ModuleType:
    """Raises ValueError, which says what to install, if the package is not there."""
    try:
        from ufal import udpipe
    except ImportError:
        raise ValueError(MISSING) from None
    return udpipe


class UDPipeTokenizer:
    def __init__(self, content: bytes):
        """content: of a model's file, which must come from somebody who is trusted: the library does not
        check what it reads. Raises ValueError if it is no tokenizer, or if the package is not there.
        """
        self._udpipe = library()
        with tempfile.NamedTemporaryFile(suffix=".udpipe") as file:  # the library reads files only
            file.write(content)
            file.flush()
            self._model = self._udpipe.Model.load(file.name)
        if not self._model or not self._model.newTokenizer(""):
            raise ValueError("not a tokenizer of UDPipe")
        self._output = self._udpipe.OutputFormat.newConlluOutputFormat()

    def sentences(self, paragraph: str, offset: int, is_sentence: bool) -> Iterator[TokenizedSentence]:
        """The sentences of a paragraph, whose white space is blanks and line ends.

        offset: characters of the text before the paragraph. is_sentence: whether it is one sentence.
        """
        # Offsets run on from text to text, so that each paragraph needs a new tokenizer.
        tokenizer = self._model.newTokenizer("ranges;presegmented" if is_sentence else "ranges")
        tokenizer.setText(paragraph + "\n")
        sentence, error = self._udpipe.Sentence(), self._udpipe.ProcessingError()
        begins = not is_sentence
        while tokenizer.nextSentence(sentence, error):
            tokens = tuple(_tokens(self._output.writeSentence(sentence), offset))
            text = paragraph[tokens[0].start - offset : tokens[-1].end - offset]
            yield TokenizedSentence(tokens, " ".join(text.split()), begins)
            begins = False
        if error.occurred():
            raise ValueError(f"the tokenizer failed: {error.message}")


def _tokens(lines: str, offset: int) -> Iterator[Token]:
    """The tokens of a sentence in CoNLL-U. offset: characters before what the ranges count from."""
    rows = iter([line.split("\t") for line in lines.split("\n") if line and not line.startswith("#")])
    for row in rows:
        first, _, last = row[ID].partition("-")
        count = int(last) - int(first) + 1 if last else 0
        words = tuple(next(rows)[FORM] for _ in range(count)) or (row[FORM],)
        values = row[MISC].split("|")
        [place] = (value for value in values if value.startswith(RANGE))
        start, _, end = place.removeprefix(RANGE).partition(":")
        space_after = "SpaceAfter=No" not in values
        yield Token(row[FORM], int(start) + offset, int(end) + offset, words, space_after)
