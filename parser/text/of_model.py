"""The reader of text that belongs to a model."""

from __future__ import annotations

from pathlib import Path

from parser.models.model_files import TOKENIZER, ModelFiles, members_of, model_files, refuse_without_model
from parser.system.settings import naming
from parser.text.reading import TextFormat, TextReader
from parser.text.tokenizer_kinds import Lines, StoredTokenizer, tokenizer_from_json

MISSING = (
    "the model has no tokenizer. Train it with `tokenizer: {kind: bilstm}`; a finished run gets one by "
    "`stack-parser train --resume RUN --set tokenizer.kind=bilstm`; tokenized text needs none (--tokenized)"
)


def text_reader(model: Path, form: TextFormat, treebank: str | None = None) -> TextReader:
    """A reader with the tokenizer of a model, which is a folder or a package.

    treebank: one of those that the model was trained on, each of which has a tokenizer; None for the first.
    Safe for untrusted models. Raises ValueError if there is no tokenizer, if it is broken, or if a package
    that it needs is missing.
    """
    return reader_of_model(model, form, _stored(model, form), treebank)


def reader_of_model(
    model: Path, form: TextFormat, tokenizer: StoredTokenizer, treebank: str | None = None
) -> TextReader:
    """Like `text_reader`. tokenizer: that of the model, whose path is only used in messages."""
    with naming(f"{model}: {TOKENIZER}"):
        return reader_with(form, tokenizer, treebank)


def has_tokenizer(model: Path) -> bool:
    """Whether a model has a tokenizer, which may be broken. Raises ValueError if there is no model."""
    return _first_files(model).has(TOKENIZER)


def tokenizer_of(model: Path, form: TextFormat, treebank: str | None = None) -> StoredTokenizer:
    """The tokenizer that finds the divisions that the text does not mark; `reader_with` opens it.

    See `text_reader`.
    """
    return _sound(_stored(model, form), str(model), treebank)


def tokenizer_in(content: bytes, model: str, treebank: str | None = None) -> StoredTokenizer:
    """Like `tokenizer_of`. content: that of the file. model: the model's name for messages."""
    with naming(f"{model}: {TOKENIZER}"):
        tokenizer = tokenizer_from_json(content)
    return _sound(tokenizer, model, treebank)


def _stored(model: Path, form: TextFormat) -> StoredTokenizer:
    if form == "tokenized":
        return StoredTokenizer(Lines(kind="lines"))
    files = _first_files(model)
    if not files.has(TOKENIZER):
        raise ValueError(f"{model}: {MISSING}")
    with naming(f"{model}: {TOKENIZER}"):
        return tokenizer_from_json(files.content(TOKENIZER))


def _first_files(model: Path) -> ModelFiles:
    """The files of a model, or of the first of an ensemble. Raises ValueError if there is no model."""
    files = model_files(model)
    refuse_without_model(files)
    return members_of(files)[0]


def _sound(tokenizer: StoredTokenizer, model: str, treebank: str | None) -> StoredTokenizer:
    with naming(f"{model}: {TOKENIZER}"):
        tokenizer.settings.refuse_unsound(tokenizer.content(treebank))
    return tokenizer


def reader_with(form: TextFormat, tokenizer: StoredTokenizer, treebank: str | None = None) -> TextReader:
    """A reader with a tokenizer. Raises what `StoredTokenizer.content` and `TokenizerKind.opened` raise."""
    return TextReader(form, tokenizer.settings.opened(tokenizer.content(treebank)))
