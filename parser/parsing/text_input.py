"""The reader of text that goes with a model."""

from __future__ import annotations

from pathlib import Path

from parser.parsing.model_files import TOKENIZER, members_of, model_files
from parser.text.reading import TextFormat, TextReader
from parser.text.trust import was_trained_here
from parser.text.udpipe import UDPipeTokenizer

MISSING = (
    "the model has no tokenizer. Train it with `tokenizer: udpipe`; a finished run gets one by `stack-parser "
    "train --resume RUN --set tokenizer=udpipe`; tokenized text needs none (--tokenized)"
)
NOT_TRUSTED = (
    "its tokenizer was not trained here, by this user. It is a binary file which the library that reads it "
    "does not check. If you trust whoever made the model, add --trust-tokenizer"
)


def text_reader(model: Path, form: TextFormat, trusted: bool = False) -> TextReader:
    """A reader with the tokenizer of a model, which is a folder or a package.

    trusted: whether a tokenizer from elsewhere is opened. Raises ValueError if there is none, if it may not
    be opened, or if it is broken.
    """
    content = tokenizer_of(model, form, trusted)
    try:
        return reader_with(form, content)
    except ValueError as error:
        raise ValueError(f"{model}: {TOKENIZER}: {error}") from None


def tokenizer_of(model: Path, form: TextFormat, trusted: bool = False) -> bytes | None:
    """The tokenizer's file, which `reader_with` opens; None if the text needs no tokenizer.

    See `text_reader`.
    """
    if form == "tokenized":
        return None
    files = members_of(model_files(model))[0]
    if not files.has(TOKENIZER):
        raise ValueError(f"{model}: {MISSING}")
    content = files.content(TOKENIZER)
    if not trusted and not was_trained_here(content):
        raise ValueError(f"{model}: {NOT_TRUSTED}")
    return content


def reader_with(form: TextFormat, tokenizer: bytes | None) -> TextReader:
    """Raises ValueError if the tokenizer is broken."""
    return TextReader(form, None if tokenizer is None else UDPipeTokenizer(tokenizer))
