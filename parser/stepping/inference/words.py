"""Word vectors, computed once for words that are equal in all columns."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from parser.networks.stack_parser import StackParser
from parser.networks.tag_classifiers import best_tags
from parser.treebank.ragged import Ragged
from parser.treebank.tokens import Tokens


class WordVectors(NamedTuple):
    table: Tensor
    """[distinct words + 2, token] The last rows are those of ROOT and of the end of the buffer."""
    row: Tensor
    """[words + 2] The row of each word, of ROOT and of the end; on the host."""
    tags: list[Tensor]
    """For each predicted column [distinct words] The best values."""

    @classmethod
    def of(cls, network: StackParser, tokens: Tokens) -> WordVectors:
        """tokens: on the host. With a sentence encoder or a transformer all words are distinct."""
        row = torch.arange(tokens.words)
        if network.tokens.sentence_encoder is None and network.tokens.transformer is None:
            tokens, row = distinct_words(tokens)
        root_and_end = torch.tensor([tokens.words, tokens.words + 1])
        table, tag_scores = network.encode(tokens.to(network.tokens.root.device))
        return cls(table, torch.cat([row, root_and_end]), best_tags(tag_scores))


def distinct_words(tokens: Tokens) -> tuple[Tokens, Tensor]:
    """The distinct words as one sentence, and the number there of each word [words]. On the host."""
    values = tokens.values
    number = torch.zeros(len(values), dtype=torch.long)
    for column in values.unbind(1):
        # Numbered anew for each column, so that the products stay small.
        _, number = (number * (int(column.max()) + 1) + column).unique(return_inverse=True)
    first = torch.zeros(int(number.max()) + 1, dtype=torch.long)
    first[number] = torch.arange(len(values))
    return Tokens(Ragged(values[first], torch.tensor([len(first)])), tokens.parts), number
