"""From the columns of a word to one vector (Ding & Koehn 2019, section 2.1)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from parser.batching.product import linear
from parser.config import NetworkSettings
from parser.networks.dropout import dropout
from parser.treebank.vocabulary import PRETRAINED


class TokenEncoder(nn.Module):
    """ReLU(Linear[word; pretrained word vector; tags]), and learned vectors for ROOT and the buffer's end."""

    def __init__(
        self, settings: NetworkSettings, lexicon_sizes: dict[str, int], vectors: Tensor | None = None
    ):
        """lexicon_sizes: of each column, in the order of the input. vectors: [words, size], pretrained."""
        super().__init__()
        embeddings = {}
        for column, count in lexicon_sizes.items():
            if column == PRETRAINED:
                embeddings[column] = _frozen(count, vectors)
            else:
                size = settings.word_size if column == "form" else settings.tag_sizes[column]  # type: ignore[index]
                embeddings[column] = _trained(count, size)
        joined_size = sum(embedding.embedding_dim for embedding in embeddings.values())
        self.embeddings = nn.ModuleDict(embeddings)
        self.join = nn.Linear(joined_size, settings.token_size)
        self.root = nn.Parameter(torch.randn(settings.token_size) / 10)
        self.end = nn.Parameter(torch.randn(settings.token_size) / 10)
        self.dropout = settings.dropout

    def forward(self, tokens: Tensor) -> Tensor:
        """[words + 2, token] from tokens [words, columns]: the words, then ROOT, then the buffer's end."""
        parts = [embedding(tokens[:, column]) for column, embedding in enumerate(self.embeddings.values())]
        words = F.relu(linear(torch.cat(parts, dim=1), self.join.weight, self.join.bias))
        words = dropout(words, self.dropout, self.training)
        return torch.cat([words, self.root[None], self.end[None]])


def _trained(count: int, size: int) -> nn.Embedding:
    embedding = nn.Embedding(count, size)
    nn.init.normal_(embedding.weight, std=size**-0.5)
    return embedding


def _frozen(count: int, vectors: Tensor | None) -> nn.Embedding:
    """The pretrained vectors, and zeros for a word that has none."""
    assert vectors is not None
    assert len(vectors) == count - 1
    return nn.Embedding.from_pretrained(
        torch.cat([vectors.new_zeros(1, vectors.shape[1]), vectors]), freeze=True
    )
