"""The tokenizer `stack_parser.Tokenizer.v1` for spaCy's pipelines, which `spacy_factory` creates."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from spacy.tokens import Doc
from spacy.vocab import Vocab

from parser.api.parser import refuse_surrogates
from parser.models.named_models import find_model
from parser.models.text_input import reader_with, tokenizer_in, tokenizer_of
from parser.system.files import write_atomically
from parser.treebank.text.reading import TextReader
from parser.treebank.text.tokenizer import TokenizedSentence
from parser.treebank.text.tokenizer_kinds import StoredTokenizer, tokenizer_as_json

NAME = "the tokenizer of the pipeline"


class Piece(NamedTuple):
    """A token in spaCy: a word, or white space."""

    form: str
    space_after: bool = False
    """Whether a space follows that is not a token."""
    begins_sentence: bool = False


class PipelineTokenizer:
    """Splits texts into sentences and words with the tokenizer of a model. Threads can share it."""

    def __init__(self, vocab: Vocab, model: str | None):
        """model: folder, file or name of a model. If it has no tokenizer, the first use raises an error.

        This is because the config of a saved pipeline still names the model, although the pipeline contains
        its own tokenizer.
        """
        self.vocab = vocab
        self._tokenizer: StoredTokenizer | None = None
        self._missing = "it has no model: give nlp.tokenizer the config {'model': MODEL}"
        if model is not None:
            try:
                self._tokenizer = tokenizer_of(find_model(model), "raw")
            except (ValueError, OSError) as error:  # such as a folder of somebody else
                self._missing = str(error)

    def __call__(self, text: str) -> Doc:
        """Return a document with the words and the sentences of the text. White space between them stays.

        If the words of a multiword token do not spell the token, they replace it, with a warning. Raises
        ValueError without a tokenizer, or if a package that it needs is missing.
        """
        refuse_surrogates(text, "the text")
        pieces = list(_pieces(text, self._reader.sentences(text)))
        begins: list[bool | int | None] = [piece.begins_sentence for piece in pieces]
        if not any(begins[:1]):  # white space, with which the first sentence begins
            begins = [True, False, *begins[2:]][: len(begins)]
        return Doc(
            self.vocab,
            words=[piece.form for piece in pieces],
            spaces=[piece.space_after for piece in pieces],
            sent_starts=begins,
        )

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """Return the content of the tokenizer's file. Raises ValueError without a tokenizer."""
        return tokenizer_as_json(self.ready())

    def from_bytes(self, content: bytes, *, exclude: Iterable[str] = ()) -> PipelineTokenizer:
        """Load the tokenizer. Raises ValueError for any other file, and if it must not be opened."""
        self._tokenizer = tokenizer_in(content, NAME)
        self.__dict__.pop("_reader", None)  # that of the tokenizer before
        return self

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Write the tokenizer's file, see `to_bytes`."""
        write_atomically(Path(path), self.to_bytes())

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> PipelineTokenizer:
        """Read the tokenizer's file, see `from_bytes`."""
        return self.from_bytes(Path(path).read_bytes())

    def __getstate__(self) -> dict[str, Any]:
        """The state for other processes, which open the tokenizer themselves."""
        return {name: value for name, value in self.__dict__.items() if name != "_reader"}

    @cached_property
    def _reader(self) -> TextReader:
        try:
            return reader_with("raw", self.ready())
        except ValueError as error:
            raise ValueError(f"{NAME}: {error}") from None

    def ready(self) -> StoredTokenizer:
        """Return the loaded tokenizer. Raises ValueError if no tokenizer could be loaded."""
        if self._tokenizer is None:
            raise ValueError(f"{NAME}: {self._missing}")
        return self._tokenizer


def _pieces(text: str, sentences: Iterable[TokenizedSentence]) -> Iterator[Piece]:
    """Yield the words and, as in spaCy, the white space except for a single space after each word."""
    end = 0
    last: Piece | None = None
    for sentence in sentences:
        for place, token in enumerate(sentence.tokens):
            yield from _between(last, text[end : token.start])
            divided = "".join(token.words) != token.form
            if divided:
                _warn(token.form, token.words)
            *first, last_word = token.words
            starts = [place == 0] + [False] * len(first)
            for word, begins in zip(first, starts, strict=False):
                yield Piece(word, divided, begins)
            last = Piece(last_word, False, starts[len(first)])
            end = token.end
    yield from _between(last, text[end:])


def _between(last: Piece | None, space: str) -> Iterator[Piece]:
    """Yield the word before white space, if there is one, and the white space."""
    if last:
        yield last._replace(space_after=space.startswith(" "))
        space = space.removeprefix(" ")
    if space:
        # Other characters that the tokenizer takes for blank would be words for spaCy.
        yield Piece("".join(character if character.isspace() else " " for character in space))


def _warn(form: str, words: tuple[str, ...]) -> None:
    message = f"{form}: spaCy has the words {' '.join(words)} in its place, which changes the text"
    warnings.warn(message, UserWarning, stacklevel=3)
