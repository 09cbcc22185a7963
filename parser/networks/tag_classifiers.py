"""Tags, features and lemma rules of words, from their vectors."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from parser.batching.product import linear
from parser.treebank.vocabulary import UNKNOWN


class TagClassifiers(nn.ModuleDict):
    """A linear classifier for each predicted column, on the vectors that the parser reads."""

    def __init__(self, size: int, lexicon_sizes: Mapping[str, int]):
        """size: of a word vector; lexicon_sizes: of the predicted columns, in order."""
        super().__init__({column: nn.Linear(size, count) for column, count in lexicon_sizes.items()})

    def loss(self, words: Tensor, values: Tensor) -> Tensor:
        """Summed cross entropy of known values. words: [W, size]; values: [W, columns]."""
        loss = words.new_zeros(())
        for layer, wanted in zip(self.values(), values.unbind(1), strict=True):
            scores = _scores(layer, words)
            loss = loss + F.cross_entropy(scores, wanted, ignore_index=UNKNOWN, reduction="sum")
        return loss

    def forward(self, words: Tensor) -> Tensor:
        """[W, columns] The best known value of each word in each column. words: [W, size]."""
        best = [_scores(layer, words)[:, UNKNOWN + 1 :].argmax(1) + UNKNOWN + 1 for layer in self.values()]
        return torch.stack(best, dim=1) if best else words.new_empty(len(words), 0, dtype=torch.long)


def _scores(layer: nn.Module, words: Tensor) -> Tensor:
    """[W, lexicon]"""
    assert isinstance(layer, nn.Linear)
    return linear(words, layer.weight, layer.bias)
