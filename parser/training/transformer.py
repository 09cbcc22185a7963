"""The pretrained transformer of a training run, and the word vectors of a frozen one.

The vectors of a frozen transformer are computed once and kept in a file next to the prepared treebanks. The
file contains numbers in half precision and then a hash of them, so that damage is noticed. It is mapped into
memory.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from parser.batching.device import in_microbatches
from parser.config.data_folder import data_path
from parser.models.network_model import NetworkModel
from parser.models.transformer_files import refuse_missing_libraries
from parser.networks.settings import TransformerSettings
from parser.system.console import say
from parser.system.interruption import interruptible
from parser.system.machine import TooLongError
from parser.system.progress_bar import PROGRESS_BAR, ProgressBar
from parser.training.prepared import remove_old
from parser.treebank.batches import batches_by_length
from parser.treebank.sentence import Sentence
from parser.treebank.tokens import Tokens, WordSource

if TYPE_CHECKING:
    from parser.networks.transformer.encoder import TransformerEncoder
    from parser.networks.transformer.pretrained import PretrainedTransformer


def pretrained_transformer(
    settings: TransformerSettings | None,
    initial: NetworkModel | None,
    forms: Callable[[], Iterable[str]],
) -> PretrainedTransformer | None:
    """The transformer of the settings, or of the model that training starts from, if there is one.

    forms: called for the forms of train if those settings ask to prune the transformer. Raises ValueError if
    it cannot be read, and what `forms` raises.
    """
    if settings is None:
        return None
    refuse_missing_libraries()
    from parser.networks.transformer.pretrained import read_pretrained
    from parser.networks.transformer.pruning import pruned

    if initial and (encoder := initial.network.tokens.transformer):
        if encoder.settings.model != settings.model:
            say("the transformer is that of initial_model, not parser.network.transformer.model")
        transformer = encoder.present()
    else:
        transformer = read_pretrained(data_path(settings.model))
    return pruned(transformer, forms()) if settings.prune else transformer


def word_source(transformer: PretrainedTransformer | None) -> WordSource | None:
    """The tokenizer of the transformer, as a source of word pieces. Raises ValueError if it is broken."""
    if transformer is None:
        return None
    from parser.networks.transformer.pieces import PieceSource
    from parser.networks.transformer.tokenizer import PieceTokenizer

    return PieceSource(PieceTokenizer(transformer.tokenizer))


SUFFIX, UNFINISHED = ".vectors", ".part"
FORMAT = 1
"""File format; to be changed whenever the same transformer would give different vectors than before."""
ABANDONED = 24 * 60 * 60
"""Seconds after which no process still writes an unfinished file."""
KEPT = 4
"""Number of most recently used files to keep. English EWT takes 1.4 GB with four layers of size 768."""
HASH_SIZE = hashlib.sha256().digest_size
Shape = tuple[int, int, int]


class KnownVectors:
    """Gives the sentences of a treebank their computed vectors, and other sentences word pieces."""

    def __init__(self, sentences: Sequence[Sentence], tokens: Tokens, others: WordSource):
        """tokens: the tokens of the sentences, with vectors."""
        self._tokens, self._others = tokens, others
        self._number = {sentence.forms: number for number, sentence in enumerate(sentences)}

    def added(self, tokens: Tokens, sentences: Sequence[Sentence]) -> Tokens:
        """See `WordSource`."""
        numbers = [self._number.get(sentence.forms) for sentence in sentences]
        if None in numbers:
            return self._others.added(tokens, sentences)
        known = self._tokens.select(torch.tensor(numbers, dtype=torch.long))
        return replace(tokens, vectors=known.vectors)


def with_frozen_vectors(
    encoder: TransformerEncoder, parts: Sequence[Tokens], cache: Path | None
) -> list[Tokens]:
    """Tokens with the vectors of a frozen transformer in place of the words' pieces.

    cache: the folder in which the vectors are kept. Raises ValueError if half precision cannot hold them.
    """
    settings, words = encoder.settings, [tokens.words for tokens in parts]
    shape = sum(words), settings.layers, encoder.size
    asked = FORMAT, encoder.pretrained.digest, settings.layers, settings.pooling, settings.max_pieces
    key = hashlib.sha256(repr(asked).encode())
    for tokens in parts:
        assert tokens.pieces is not None
        for tensor in (tokens.lengths, tokens.pieces.lengths, tokens.pieces.values):
            key.update(tensor.numpy().tobytes())
    path = cache / f"{key.hexdigest()[:32]}{SUFFIX}" if cache else None
    table = _kept(path, shape) if path else None
    if table is None:
        with interruptible(), _new_table(path, shape) as table:
            for tokens, vectors in zip(parts, table.split(words), strict=True):
                _fill(vectors, encoder, tokens)
    return [
        replace(tokens, pieces=None, vectors=vectors)
        for tokens, vectors in zip(parts, table.split(words), strict=True)
    ]


def _kept(path: Path, shape: Shape) -> Tensor | None:
    """[words, layers, size] The vectors in a file; None if it does not exist or is damaged."""
    try:
        os.utime(path)  # used now: `remove_old` goes by this time
        if path.stat().st_size == _bytes(shape) + HASH_SIZE:
            table = _mapped(path, shape, shared=False)
            with path.open("rb") as file:
                file.seek(-HASH_SIZE, os.SEEK_END)
                if file.read() == _hash(table):
                    return table
        say(f"{path} is damaged: the transformer's vectors are computed again")
    except FileNotFoundError:
        pass
    except (OSError, RuntimeError) as error:
        say(f"{path}: {error}; the transformer's vectors are computed again")
    return None


@contextmanager
def _new_table(path: Path | None, shape: Shape) -> Iterator[Tensor]:
    """[words, layers, size] An empty table to fill in the block; afterwards, it is the content of `path`.

    If there is no room for a file, the table exists in memory only.
    """
    unfinished = _empty_file(path, shape) if path else None
    if path is None or unfinished is None:
        yield torch.empty(shape, dtype=torch.float16)
        return
    try:
        table = _mapped(unfinished, shape, shared=True)
        yield table
        try:
            with unfinished.open("ab") as file:
                file.write(_hash(table))
                os.fsync(file.fileno())
            unfinished.replace(path)  # the mapping stays valid
        except OSError as error:
            lost = "the next start will compute the transformer's vectors again"
            say(f"{path.parent}: {error.strerror}; {lost}")
    finally:
        unfinished.unlink(missing_ok=True)
    remove_old(path.parent, f"*{SUFFIX}", KEPT)


def _empty_file(path: Path, shape: Shape) -> Path | None:
    """A file with room for the table; None, with a message, if there is no room."""
    unfinished = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for abandoned in path.parent.glob(f"*{UNFINISHED}"):  # by processes that were killed
            with suppress(OSError):  # another process may be removing it too
                if time.time() - abandoned.stat().st_mtime > ABANDONED:
                    abandoned.unlink()
        descriptor, name = tempfile.mkstemp(UNFINISHED, "", path.parent)
        unfinished = Path(name)
        with os.fdopen(descriptor, "wb") as file:
            if shutil.disk_usage(path.parent).free < 2 * _bytes(shape):
                raise OSError(0, "little room is left on the disk")
            if hasattr(os, "posix_fallocate"):  # macOS has none
                os.posix_fallocate(file.fileno(), 0, _bytes(shape))
            else:
                file.truncate(_bytes(shape))
    except OSError as error:
        say(
            f"{path.parent}: {error.strerror}; the transformer's vectors are kept in memory, "
            f"{_bytes(shape) / 1e9:.1f} GB; set XDG_CACHE_HOME to a folder on a larger disk to keep them"
        )
        if unfinished:
            unfinished.unlink(missing_ok=True)
        return None
    return unfinished


def _bytes(shape: Shape) -> int:
    words, layers, size = shape
    return words * layers * size * torch.float16.itemsize


def _mapped(path: Path, shape: Shape, shared: bool) -> Tensor:
    """[words, layers, size] The mapped file. shared: whether writes to the table change the file."""
    words, layers, size = shape
    return torch.from_file(str(path), shared, words * layers * size, dtype=torch.float16).view(shape)


def _hash(table: Tensor) -> bytes:
    return hashlib.sha256(table.numpy().reshape(-1).view("uint8").data).digest()


@torch.no_grad()
def _fill(table: Tensor, encoder: TransformerEncoder, tokens: Tokens) -> None:
    """Fill the table [words, layers, size] with the vectors of the tokens."""
    device = encoder.mix.device

    def compute(microbatches: Sequence[Tensor]) -> Tensor:
        """[words, layers, size]"""
        return torch.cat([encoder.layers_of(tokens.select(rows).to(device)).cpu() for rows in microbatches])

    with ProgressBar(total=len(tokens), desc="transformer", unit="sentence", **PROGRESS_BAR) as bar:
        for rows in batches_by_length(tokens.lengths):
            try:
                vectors = in_microbatches(compute, rows, tokens.lengths)
            except TooLongError as error:
                raise ValueError(f"parser.network.transformer: {error}; leave it out") from None
            if not vectors.isfinite().all():
                raise ValueError(
                    "parser.network.transformer: its vectors have numbers that half precision cannot hold; "
                    "set train: lora or all, for which they are computed anew"
                )
            table[tokens.numbers.elements(rows)] = vectors
            bar.update(len(rows))
