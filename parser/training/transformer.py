"""The pretrained transformer of a training run, and the word vectors of one that is not trained.

These vectors are computed once for all training and dev sentences, and kept in a file beside the prepared
treebanks, from which they are mapped into memory.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from tqdm import tqdm

from parser.batching.microbatches import in_microbatches
from parser.config import Config, data_path
from parser.console import PROGRESS_BAR, say
from parser.parsing.model import Model
from parser.parsing.transformer_files import refuse_missing_libraries
from parser.treebank.batches import batches_by_length
from parser.treebank.sentence import Sentence
from parser.treebank.tokens import Tokens
from parser.treebank.vocabulary import WordSource

if TYPE_CHECKING:
    from parser.networks.transformer_encoder import TransformerEncoder
    from parser.transformer.pretrained import PretrainedTransformer

SUFFIX = ".vectors"
KEPT = 4
"""Files that are kept, those used last. English EWT takes 1.4 GB with four layers of 768 numbers."""


def pretrained_transformer(config: Config, initial: Model | None) -> PretrainedTransformer | None:
    """That of the config; of a model that training begins with, if there is one.

    Raises ValueError if it can not be read.
    """
    settings = config.parser.network.transformer
    if settings is None:
        return None
    refuse_missing_libraries()
    from parser.transformer.pretrained import read_pretrained

    if initial and (encoder := initial.network.tokens.transformer):
        return encoder.pretrained
    return read_pretrained(data_path(settings.model))


def word_source(transformer: PretrainedTransformer | None) -> WordSource | None:
    """Raises ValueError if the transformer's tokenizer is broken."""
    if transformer is None:
        return None
    from parser.transformer.pieces import PieceTokenizer

    return PieceTokenizer(transformer.tokenizer)


class KnownVectors:
    """Gives sentences of a treebank the vectors that have been computed, and other sentences pieces."""

    def __init__(self, sentences: Sequence[Sentence], tokens: Tokens, others: WordSource):
        """tokens: of the sentences, with vectors."""
        self._tokens, self._others = tokens, others
        self._number = {sentence.forms: number for number, sentence in enumerate(sentences)}

    def added(self, tokens: Tokens, sentences: Sequence[Sentence]) -> Tokens:
        """See `WordSource`."""
        numbers = [self._number.get(sentence.forms) for sentence in sentences]
        if None in numbers:
            return self._others.added(tokens, sentences)
        own = self._tokens.select(torch.tensor(numbers, dtype=torch.long))
        return replace(tokens, vectors=own.vectors)


def with_frozen_vectors(
    encoder: TransformerEncoder, parts: Sequence[Tokens], cache: Path | None
) -> list[Tokens]:
    """Tokens with the vectors of a transformer that is not trained, in the place of the words' pieces.

    cache: the folder where they are kept.
    """
    words = [tokens.words for tokens in parts]
    shape = sum(words), encoder.settings.layers, encoder.size
    path = cache / f"{_key(encoder, parts)}{SUFFIX}" if cache else None
    table = _mapped(path, shape) if path else None
    if table is None:
        table, own = _new_table(path, shape)
        for tokens, place in zip(parts, table.split(words), strict=True):
            _fill(place, encoder, tokens)
        if path and own:
            own.replace(path)
            _remove_old(path.parent)
    return [
        replace(tokens, pieces=None, vectors=vectors)
        for tokens, vectors in zip(parts, table.split(words), strict=True)
    ]


def _key(encoder: TransformerEncoder, parts: Sequence[Tokens]) -> str:
    """By the transformer, what is taken from it, and the text."""
    settings = encoder.settings
    asked = encoder.pretrained.digest, settings.layers, settings.pooling, settings.max_pieces
    found = hashlib.sha256(repr(asked).encode())
    for tokens in parts:
        assert tokens.pieces
        for tensor in (tokens.lengths, tokens.pieces.lengths, tokens.pieces.values):
            found.update(tensor.numpy().tobytes())
    return found.hexdigest()[:32]


def _mapped(path: Path, shape: tuple[int, int, int]) -> Tensor | None:
    """[words, layers, size] The vectors in a file; None if there is none of that size."""
    try:
        if path.stat().st_size != _bytes(shape):
            return None
        os.utime(path)
        return _from_file(path, shape, shared=False)
    except (OSError, RuntimeError):
        return None


def _new_table(path: Path | None, shape: tuple[int, int, int]) -> tuple[Tensor, Path | None]:
    """An empty table, and the file that holds it; None if it is in memory."""
    if path:
        own = path.with_name(f".{os.getpid()}-{path.name}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with own.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, max(_bytes(shape), 1))
            return _from_file(own, shape, shared=True), own
        except OSError as error:
            own.unlink(missing_ok=True)
            say(f"{path.parent}: {error.strerror}; the transformer's vectors are kept in memory")
    return torch.empty(shape, dtype=torch.float16), None


def _bytes(shape: tuple[int, int, int]) -> int:
    words, layers, size = shape
    return words * layers * size * torch.float16.itemsize


def _from_file(path: Path, shape: tuple[int, int, int], shared: bool) -> Tensor:
    words, layers, size = shape
    flat = torch.from_file(str(path), shared, words * layers * size, dtype=torch.float16)
    return flat.view(shape)


@torch.no_grad()
def _fill(table: Tensor, encoder: TransformerEncoder, tokens: Tokens) -> None:
    """table: [words, layers, size]"""
    device = encoder.mix.device

    def compute(microbatches: Sequence[Tensor]) -> Tensor:
        """[words, layers, size]"""
        return torch.cat([encoder.layers_of(tokens.select(rows).to(device)).cpu() for rows in microbatches])

    with tqdm(total=len(tokens), desc="transformer", unit="sentence", **PROGRESS_BAR) as bar:
        for rows in batches_by_length(tokens.lengths):
            table[tokens.numbers.elements(rows)] = in_microbatches(compute, rows, tokens.lengths)
            bar.update(len(rows))


def _remove_old(folder: Path) -> None:
    """Remove all but the files used last."""
    with suppress(OSError):
        by_age = sorted(folder.glob(f"*{SUFFIX}"), key=lambda kept: kept.stat().st_mtime)
        for old in by_age[:-KEPT]:
            old.unlink(missing_ok=True)
