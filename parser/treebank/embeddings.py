"""Reading pretrained word vectors: the text format of word2vec, GloVe and fastText, and binary word2vec."""

from __future__ import annotations

import math
from array import array
from typing import BinaryIO

import numpy as np
import torch
from torch import Tensor

from parser.system.console import quoted, shortened
from parser.treebank.conllu_faults import undecoded
from parser.treebank.text_files import UnboundedError, bounded_lines, open_bytes, open_text

BINARY = (".bin", ".bin.gz")
# Larger values show that a file has another format.
MAX_WORD_BYTES = 10_000
MAX_VECTOR_SIZE = 100_000
MAX_HEADER_DIGITS = 12


def read_vectors(path: str) -> tuple[list[str], Tensor]:
    """Read words and their vectors [words, size]. If a word is repeated, its first vector is kept.

    Files named `.bin` or `.bin.gz` are read as binary word2vec. Raises ValueError, with file and line or
    word, if a vector is invalid or differs in size from the first one.
    """
    return _read_binary(path) if path.endswith(BINARY) else _read_text(path)


def _read_text(path: str) -> tuple[list[str], Tensor]:
    words: dict[str, None] = {}
    numbers = array("f")
    size = line_number = 0
    with open_text(path) as file:
        try:
            for line_number, line in enumerate(bounded_lines(file), 1):
                word, values = _word_and_values(line, size)
                if line_number == 1 and len(values) == 1:
                    continue  # the header of word2vec and fastText: number of words, size
                size = size or len(values)
                if not values:
                    raise ValueError("no numbers after the word; single spaces must separate them")
                if len(values) != size:
                    raise ValueError(f"{len(values)} numbers instead of {size}")
                if word not in words:
                    words[word] = None
                    numbers.extend(_numbers(values))
        except UnboundedError as error:
            raise ValueError(f"{path}:{error.line}: {error}") from None
        except ValueError as error:
            raise ValueError(f"{path}:{line_number}: {error}") from None
    if not words:
        raise ValueError(f"{path}: the file holds no word vector")
    # `torch.tensor` would create a Python object for each number first.
    return list(words), torch.frombuffer(numbers, dtype=torch.float32).view(len(words), size)


def _numbers(values: list[str]) -> array[float]:
    """Convert to 32-bit floats. Raises ValueError if a value is not a finite number."""
    try:
        numbers = array("f", map(float, values))
    except ValueError as error:
        raise ValueError(shortened(str(error))) from None
    if not all(map(math.isfinite, numbers)):
        raise ValueError("a number that is not finite")
    return numbers


def _word_and_values(line: str, size: int) -> tuple[str, list[str]]:
    """Split a line into the word and its values. size: the expected number of values, 0 if unknown.

    The larger GloVe files contain words with spaces, such as ". . .": with more than `size` values, leading
    values that are not numbers belong to the word. Raises ValueError if the line is not UTF-8.
    """
    if message := undecoded(line):
        raise ValueError(message)
    parts = line.rstrip().split(" ")
    of_word = 1
    while size and len(parts) - of_word > size and not _is_number(parts[of_word]):
        of_word += 1
    return " ".join(parts[:of_word]), parts[of_word:]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _read_binary(path: str) -> tuple[list[str], Tensor]:
    """Read a header line (number of words, vector size), then for each word: word, space, float32 values."""
    words: dict[str, None] = {}
    vectors = []
    with open_bytes(path) as file:
        count, size = _header(path, file)
        for number in range(1, count + 1):
            word = _word(path, file, number)
            content = file.read(4 * size)
            if len(content) < 4 * size:
                raise ValueError(f"{path}: ends in word {number} of {count}")
            vector = np.frombuffer(content, "<f4")
            if not np.isfinite(vector).all():
                raise ValueError(f"{path}: word {number}, {quoted(word)}, has a number that is not finite")
            if word not in words:
                words[word] = None
                vectors.append(vector)
        file.read()  # gzip verifies its checksum at the end of the file
    if not words:
        raise ValueError(f"{path}: the file holds no word vector")
    return list(words), torch.from_numpy(np.stack(vectors))


def _header(path: str, file: BinaryIO) -> tuple[int, int]:
    parts = file.readline(MAX_WORD_BYTES).split()
    if len(parts) != 2 or not all(part.isdigit() and len(part) <= MAX_HEADER_DIGITS for part in parts):
        raise ValueError(f"{path}: does not begin with the number of words and the size of their vectors")
    count, size = map(int, parts)
    if not 0 < size <= MAX_VECTOR_SIZE:
        raise ValueError(
            f"{path}: its header says that a vector has {size:,} numbers; 1 to {MAX_VECTOR_SIZE:,} are read"
        )
    return count, size


def _word(path: str, file: BinaryIO, number: int) -> str:
    """Read the next word. Some programs write a line end before it."""
    word = bytearray()
    while (byte := file.read(1)) != b" ":
        if not byte or len(word) > MAX_WORD_BYTES:
            raise ValueError(f"{path}: no word where number {number} should be")
        word += byte
    try:
        return bytes(word).lstrip(b"\n").decode()
    except UnicodeDecodeError:
        raise ValueError(f"{path}: word {number} is not UTF-8") from None
