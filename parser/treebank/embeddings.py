"""Ready-made word vectors: text as word2vec, GloVe and fastText write it, and word2vec's binary files."""

from __future__ import annotations

import gzip
import math
import zlib
from array import array
from typing import BinaryIO

import numpy as np
import torch
from torch import Tensor

from parser.treebank.conllu import open_text
from parser.treebank.faults import undecoded

BINARY = (".bin", ".bin.gz")
LONGEST_WORD = 10_000
"""Bytes; what is longer shows that a file is not what it is taken for."""


def read_vectors(path: str) -> tuple[list[str], Tensor]:
    """The words and their vectors [words, size]; a word that comes twice keeps its first vector.

    Files named `.bin` or `.bin.gz` are word2vec's binary ones. Raises ValueError, with file and line or word,
    for what is not a word and as many numbers as the others have.
    """
    return _read_binary(path) if path.endswith(BINARY) else _read_text(path)


def _read_text(path: str) -> tuple[list[str], Tensor]:
    words: dict[str, None] = {}
    numbers = array("f")
    size = 0
    with open_text(path) as file:
        for line_number, line in enumerate(file, 1):
            if message := undecoded(line):
                raise ValueError(f"{path}:{line_number}: {message}")
            word, values = _word_and_values(line, size)
            if line_number == 1 and len(values) == 1:
                continue  # the header of word2vec and fastText: number of words, size
            size = size or len(values)
            if len(values) != size or not size:
                raise ValueError(f"{path}:{line_number}: {len(values)} numbers instead of {size}")
            if word in words:
                continue
            words[word] = None
            try:
                numbers.extend(map(float, values))
            except ValueError as error:
                raise ValueError(f"{path}:{line_number}: {error}") from None
            if not all(map(math.isfinite, numbers[-size:])):
                raise ValueError(f"{path}:{line_number}: a number that is not finite")
    if not words:
        raise ValueError(f"{path}: the file holds no word vector")
    # `torch.tensor` would make an object of every number first.
    return list(words), torch.frombuffer(numbers, dtype=torch.float32).view(len(words), size)


def _word_and_values(line: str, size: int) -> tuple[str, list[str]]:
    """What a line says; size: how many numbers are expected, 0 if that is not known.

    Some words of GloVe's larger files have blanks, as ". . .". A number is no end of such a word.
    """
    word, *values = line.rstrip().split(" ")
    while size and len(values) > size and not _is_number(values[0]):
        word = f"{word} {values.pop(0)}"
    return word, values


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _read_binary(path: str) -> tuple[list[str], Tensor]:
    """A line with the number of words and the size; then each word, a blank and its numbers, 4 bytes each."""
    words: dict[str, None] = {}
    vectors = []
    try:
        with gzip.open(path) if path.endswith(".gz") else open(path, "rb") as file:
            count, size = _header(path, file)
            for number in range(1, count + 1):
                word = _word(path, file, number)
                content = file.read(4 * size)
                if len(content) < 4 * size:
                    raise ValueError(f"{path}: ends in word {number} of {count}")
                vector = np.frombuffer(content, "<f4")
                if not np.isfinite(vector).all():
                    raise ValueError(f"{path}: word {number}, {word!r}, has a number that is not finite")
                if word not in words:
                    words[word] = None
                    vectors.append(vector)
            file.read()  # to the end, where gzip looks whether all is there
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path}: not a whole gzip file: {error}") from None
    if not words:
        raise ValueError(f"{path}: the file holds no word vector")
    return list(words), torch.from_numpy(np.stack(vectors))


def _header(path: str, file: BinaryIO | gzip.GzipFile) -> tuple[int, int]:
    parts = file.readline(LONGEST_WORD).split()
    if len(parts) != 2 or not all(part.isdigit() for part in parts) or int(parts[1]) == 0:
        raise ValueError(f"{path}: does not begin with the number of words and the size of their vectors")
    return int(parts[0]), int(parts[1])


def _word(path: str, file: BinaryIO | gzip.GzipFile, number: int) -> str:
    """The next one; some programs write a line end before it."""
    found = bytearray()
    while (byte := file.read(1)) != b" ":
        if not byte or len(found) > LONGEST_WORD:
            raise ValueError(f"{path}: no word where number {number} should be")
        found += byte
    try:
        return bytes(found).lstrip(b"\n").decode()
    except UnicodeDecodeError:
        raise ValueError(f"{path}: word {number} is not UTF-8") from None
