"""Reading, parsing and writing parts of a file, for `stack-parser parse --processes`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from parser.batching.precision import Precision, set_precision
from parser.parsing.input_columns import Counts, column_counts
from parser.parsing.model import Model
from parser.parsing.parse import ParsedTree, parse_stream
from parser.treebank.conllu import Block, Roots, parse_block, with_probabilities, with_tree
from parser.treebank.faults import Faults
from parser.treebank.sentence import Sentence


class ParsedPart(NamedTuple):
    text: str
    """The sentences before the first fault, with their trees."""
    sentences: int
    words: int
    faults: Faults
    columns: dict[str, Counts]
    """The values of the columns that the model reads."""


class PartParser:
    def __init__(
        self, folder: Path, threads: int, precision: Precision, batch_size: int, probabilities: bool
    ):
        """folder: of the model."""
        self._model = model_of_worker(folder, threads, precision)
        self._batch_size, self._probabilities = batch_size, probabilities

    def run(self, blocks: Sequence[Block]) -> ParsedPart:
        sentences, faults = read_part(blocks, tree=False)
        parsed = parse_stream(self._model, sentences, self._batch_size, probabilities=self._probabilities)
        text = "".join(written(sentence, tree) for sentence, tree in parsed)
        columns = column_counts(self._model.vocabulary, self._model.settings.network.read_columns, sentences)
        return ParsedPart(text, len(sentences), sum(map(len, sentences)), faults, columns)


def model_of_worker(folder: Path, threads: int, precision: Precision) -> Model:
    """The model, on the CPU, in a process with that number of threads."""
    device = torch.device("cpu")
    torch.set_num_threads(threads)
    set_precision(precision, device)
    return Model.load(folder, device)


def read_part(blocks: Sequence[Block], tree: bool, roots: Roots = "refuse") -> tuple[list[Sentence], Faults]:
    """The sentences before the first fault, and the faults. tree, roots: see `stream_sentences`."""
    sentences, faults = [], Faults()
    for block in blocks:
        parsed = parse_block(block, tree, roots)
        if not isinstance(parsed, Sentence):
            faults.add(parsed)
        elif not faults.total:
            sentences.append(parsed)
    return sentences, faults


def written(sentence: Sentence, tree: ParsedTree) -> str:
    """The lines of a sentence with its tree, and with the probabilities if the tree has them."""
    if tree.probabilities:
        sentence = with_probabilities(sentence, tree.probabilities)
    return with_tree(sentence, tree.heads, tree.labels)
