"""From the columns of a word to one vector (Ding & Koehn 2019, section 2.1)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from parser.batching.product import linear
from parser.config import NetworkSettings
from parser.networks.bilstm import bilstm, bilstm_by_levels, bilstm_packed
from parser.networks.character_encoder import CharacterEncoder
from parser.networks.dropout import dropout
from parser.treebank.ragged import Ragged
from parser.treebank.tokens import Tokens
from parser.treebank.vocabulary import CHARACTERS, FEATURES, PRETRAINED, UNKNOWN


class TokenEncoder(nn.Module):
    """ReLU(Linear[word; pretrained vector; tags; ...]), and learned vectors for ROOT and the buffer's end.

    If the settings say so a bidirectional LSTM goes over the words of each sentence.
    """

    def __init__(
        self, settings: NetworkSettings, lexicon_sizes: dict[str, int], vectors: Tensor | None = None
    ):
        """lexicon_sizes: of each column, in the order of the input. vectors: [words, size], pretrained."""
        super().__init__()
        self.embeddings = nn.ModuleDict(
            {
                column: _embedding(column, settings, size, vectors)
                for column, size in lexicon_sizes.items()
                if column not in settings.auxiliary_tags
            }
        )
        self._place = {column: place for place, column in enumerate(lexicon_sizes)}
        joined_size = sum(_width(embedding) for embedding in self.embeddings.values())
        self.join = nn.Linear(joined_size, settings.token_size)
        self.sentence_encoder = None
        self.size = settings.token_size
        """Of a word's vector."""
        if settings.sentence_encoder:
            hidden, layers = settings.sentence_encoder.hidden_size, settings.sentence_encoder.layers
            self.sentence_encoder = bilstm(settings.token_size, hidden, layers, settings.dropout)
            self.size = 2 * hidden
        self.root = nn.Parameter(torch.randn(self.size) / 10)
        self.end = nn.Parameter(torch.randn(self.size) / 10)
        self.dropout = settings.dropout

    def pretrained_weights(self) -> list[Tensor]:
        """Those that came from a file, whether they are trained on or not."""
        return list(self.embeddings[PRETRAINED].parameters()) if PRETRAINED in self.embeddings else []

    def forward(self, tokens: Tokens) -> Tensor:
        """[words + 2, size] The words, then ROOT, then the buffer's end."""
        parts = []
        for name, embedding in self.embeddings.items():
            column = self._place[name]
            numbers = tokens.values[:, column]
            if column in tokens.parts:
                parts.append(embedding(tokens.parts[column]).index_select(0, numbers))
            else:
                parts.append(embedding(numbers))
        words = F.relu(linear(torch.cat(parts, dim=1), self.join.weight, self.join.bias))
        words = dropout(words, self.dropout, self.training)
        if self.sentence_encoder is not None:
            over = bilstm_packed if words.is_cuda else bilstm_by_levels
            words = dropout(
                over(self.sentence_encoder, words, tokens.lengths.tolist()), self.dropout, self.training
            )
        return torch.cat([words, self.root[None], self.end[None]])


class SummedEmbedding(nn.Module):
    """The sum of the embeddings of a string's parts; zeros for a string without any."""

    def __init__(self, parts: int, size: int):
        super().__init__()
        self.parts = trained_embedding(parts, size)
        self.size = size

    def forward(self, strings: Ragged) -> Tensor:
        """[strings, size]"""
        return F.embedding_bag(strings.values, self.parts.weight, strings.offsets, mode="sum")


def _embedding(column: str, settings: NetworkSettings, count: int, vectors: Tensor | None) -> nn.Module:
    """Of a column whose lexicon has `count` entries."""
    if column == PRETRAINED:
        return _pretrained(count, vectors, settings.train_pretrained)
    if column == CHARACTERS:
        assert settings.characters
        return CharacterEncoder(settings.characters, count)
    if column == "form":
        return trained_embedding(count, settings.word_size)
    size = settings.tag_sizes[column]  # type: ignore[index]
    return SummedEmbedding(count, size) if column == FEATURES else trained_embedding(count, size)


def _width(embedding: nn.Module) -> int:
    size = embedding.embedding_dim if isinstance(embedding, nn.Embedding) else embedding.size
    assert isinstance(size, int)
    return size


def trained_embedding(count: int, size: int) -> nn.Embedding:
    """With zeros for the unknown."""
    embedding = nn.Embedding(count, size)
    nn.init.normal_(embedding.weight, std=size**-0.5)
    with torch.no_grad():
        embedding.weight[UNKNOWN] = 0  # where nothing in training is unknown it stays so
    return embedding


def _pretrained(count: int, vectors: Tensor | None, train: bool) -> nn.Embedding:
    """The pretrained vectors, and zeros for a word that has none."""
    assert vectors is not None
    assert len(vectors) == count - 1
    return nn.Embedding.from_pretrained(
        torch.cat([vectors.new_zeros(1, vectors.shape[1]), vectors]), freeze=not train
    )
