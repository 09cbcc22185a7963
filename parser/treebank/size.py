"""The size of a treebank, counted without reading its trees."""

from __future__ import annotations

from typing import NamedTuple

from parser.treebank.columns import WORD_ID
from parser.treebank.conllu import blocks
from parser.treebank.text_files import bounded_lines, open_text


class TreebankSize(NamedTuple):
    sentences: int
    words: int


def size_of(path: str, most: int | None = None) -> TreebankSize:
    """The size of a file, or of its first `most` sentences.

    Raises OSError, and ValueError if the file is not text in lines.
    """
    sentences = words = 0
    with open_text(path) as file:
        for block in blocks(bounded_lines(file)):
            if sentences == most:
                break
            sentences += 1
            words += sum(WORD_ID.fullmatch(line.partition("\t")[0]) is not None for line in block.lines)
    return TreebankSize(sentences, words)
