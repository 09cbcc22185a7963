"""Layers of the token encoder that read the tags, features and lemma rules that are predicted below them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from parser.batching.functional import dropout, linear
from parser.networks.bilstm import DIRECTIONS, bilstm, run_bilstm
from parser.networks.settings import NetworkSettings


class LayersAboveTags(nn.Module):
    """A bidirectional LSTM over the tags and the vectors that they are predicted from.

    This follows Hashimoto et al. 2017, but without shortcut connections. A tag is read as the mean of the
    embeddings of all values of its column, weighted by their probabilities, so that the parser's loss reaches
    the layers below.
    """

    def __init__(self, settings: NetworkSettings, size: int, lexicon_sizes: Mapping[str, int]):
        """size: size of a word vector, both directions together. lexicon_sizes: for each predicted column."""
        super().__init__()
        tags = settings.tags
        self.embeddings = nn.ModuleDict(
            {column: _embedding(count, tags.embedding_size) for column, count in lexicon_sizes.items()}
        )
        inputs = size + tags.embedding_size * len(lexicon_sizes)
        self.lstm = bilstm(inputs, size // len(DIRECTIONS), tags.layers_above, settings.dropout)
        self.dropout = settings.dropout

    def forward(self, words: Tensor, scores: Sequence[Tensor], lengths: Sequence[int]) -> Tensor:
        """[W, size] New word vectors. words: [W, size]. scores: see `EncodedWords`. lengths: in words."""
        tags = [
            linear(own.softmax(1), embedding.weight)  # type: ignore[arg-type]
            for own, embedding in zip(scores, self.embeddings.values(), strict=True)
        ]
        found = run_bilstm(self.lstm, torch.cat([words, *tags], dim=1), lengths)
        return dropout(found, self.dropout, self.training)


def _embedding(values: int, size: int) -> nn.Linear:
    """A layer from probabilities to the mean of embeddings. Its weight is [size, values]."""
    layer = nn.Linear(values, size, bias=False)
    nn.init.normal_(layer.weight, std=size**-0.5)
    return layer
