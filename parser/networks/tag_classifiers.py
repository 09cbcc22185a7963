"""Tags, features and lemma rules of words, from their vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from parser.batching.product import linear
from parser.treebank.vocabulary import UNKNOWN


class TagClassifiers(nn.ModuleDict):
    """A linear classifier for each predicted column."""

    def __init__(self, size: int, lexicon_sizes: Mapping[str, int]):
        """size: of a word vector; lexicon_sizes: of the predicted columns, in order."""
        super().__init__({column: nn.Linear(size, count) for column, count in lexicon_sizes.items()})

    def forward(self, words: Tensor) -> list[Tensor]:
        """For each column [W, lexicon] The scores of its values. words: [W, size]."""
        return [linear(words, layer.weight, layer.bias) for layer in self.values()]  # type: ignore[arg-type]


def tag_loss(scores: Sequence[Tensor], values: Tensor) -> Tensor:
    """Summed cross entropy of known values. scores: see `TagClassifiers`; values: [W, columns]."""
    loss = values.new_zeros((), dtype=torch.get_default_dtype())
    for of_column, wanted in zip(scores, values.unbind(1), strict=True):
        loss = loss + F.cross_entropy(of_column, wanted, ignore_index=UNKNOWN, reduction="sum")
    return loss


def best_tags(scores: Sequence[Tensor]) -> list[Tensor]:
    """For each column [W] The best known value of each word. scores: see `TagClassifiers`."""
    return [own[:, UNKNOWN + 1 :].argmax(1) + UNKNOWN + 1 for own in scores]
