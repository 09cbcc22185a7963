"""Ready-made word vectors in text files, as word2vec, GloVe and fastText write them."""

from __future__ import annotations

from array import array

import torch
from torch import Tensor

from parser.treebank.conllu import open_text
from parser.treebank.faults import undecoded


def read_vectors(path: str) -> tuple[list[str], Tensor]:
    """The words and their vectors [words, size]; a word that comes twice keeps its first vector.

    Raises ValueError, with file and line, for a line that is not a word and as many numbers as the others.
    """
    words: dict[str, None] = {}
    numbers = array("f")
    size = 0
    with open_text(path) as file:
        for line_number, line in enumerate(file, 1):
            if message := undecoded(line):
                raise ValueError(f"{path}:{line_number}: {message}")
            word, *values = line.rstrip().split(" ")
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
    if not words:
        raise ValueError(f"{path}: the file holds no word vector")
    return list(words), torch.tensor(numbers).view(len(words), size)
