"""Word vectors from the columns of words (Ding & Koehn 2019, section 2.1).

The columns are defined in `parser/treebank/sentence.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from parser.batching.functional import dropout, linear
from parser.batching.ragged import Ragged, gather_rows
from parser.networks.bilstm import bilstm, run_bilstm
from parser.networks.character_encoder import CharacterEncoder
from parser.networks.character_lstm import CharacterLSTM
from parser.networks.settings import CharacterLSTMSettings, NetworkSettings
from parser.treebank.tokens import Tokens
from parser.treebank.vocabulary import CHARACTERS, PRETRAINED, TREEBANK, UNKNOWN, division_of

if TYPE_CHECKING:
    from parser.networks.transformer.encoder import TransformerEncoder
from collections.abc import Mapping, Sequence

from parser.networks.settings import DIRECTIONS


class TokenEncoder(nn.Module):
    """ReLU(Linear[word; pretrained vector; tags; ...]), and learned vectors for ROOT and the end of the
    buffer.

    Optionally, a bidirectional LSTM runs over the words of each sentence.
    """

    def __init__(
        self,
        settings: NetworkSettings,
        lexicon_sizes: dict[str, int],
        vectors: Tensor | None = None,
        transformer: TransformerEncoder | None = None,
    ):
        """lexicon_sizes: for each input column, in order. vectors: [words, size] pretrained vectors.

        transformer: an additional source of word vectors.
        """
        super().__init__()
        self.embeddings = nn.ModuleDict(
            {column: _embedding(column, settings, size, vectors) for column, size in lexicon_sizes.items()}
        )
        self._index = {column: index for index, column in enumerate(lexicon_sizes)}
        self.transformer = transformer
        joined_size = sum(_width(embedding) for embedding in self.embeddings.values())
        joined_size += transformer.size if transformer else 0
        self.join = nn.Linear(joined_size, settings.token_size)
        self.sentence_encoder = None
        self.size = settings.token_size
        """Size of a word vector."""
        if settings.sentence_encoder:
            hidden, layers = settings.sentence_encoder.hidden_size, settings.sentence_encoder.layers
            self.sentence_encoder = bilstm(settings.token_size, hidden, layers, settings.dropout)
            self.size = 2 * hidden
        self.root = nn.Parameter(torch.randn(self.size).div_(10))
        self.end = nn.Parameter(torch.randn(self.size).div_(10))
        self.dropout, self.embedding_dropout = settings.dropout, settings.embedding_dropout

    def pretrained_weights(self) -> list[Tensor]:
        """The pretrained vectors, whether or not they are trained."""
        return list(self.embeddings[PRETRAINED].parameters()) if PRETRAINED in self.embeddings else []

    def changed_rows(self, tokens: Tokens) -> dict[Tensor, Tensor]:
        """For the weight of each embedding, the rows that can get a gradient, even after word dropout."""
        unknown = torch.tensor([UNKNOWN])
        return {
            embedding.weight: torch.cat([tokens.values[:, self._index[name]], unknown]).unique()
            for name, embedding in self.embeddings.items()
            if isinstance(embedding, nn.Embedding) and embedding.weight.requires_grad
        }

    def forward(self, tokens: Tokens) -> Tensor:
        """[words, size] The vectors of the words."""
        parts = []
        for name, embedding in self.embeddings.items():
            column = self._index[name]
            strings = tokens.parts.get(column)
            table = embedding.weight if strings is None else embedding(strings)
            assert isinstance(table, Tensor)
            parts.append(gather_rows(table, tokens.values[:, column]))
        if self.transformer is not None:
            parts.append(self.transformer(tokens))
        kept = dropout_of_embeddings(parts, self.embedding_dropout, self.training)
        words = F.relu(linear(torch.cat(kept, dim=1), self.join.weight, self.join.bias))
        words = dropout(words, self.dropout, self.training)
        if self.sentence_encoder is not None:
            words = run_bilstm(self.sentence_encoder, words, tokens.lengths.tolist())
            words = dropout(words, self.dropout, self.training)
        return words

    def table(self, words: Tensor) -> Tensor:
        """[words + 2, size] The vectors of the words, then those of ROOT and of the end of the buffer."""
        return torch.cat([words, self.root[None], self.end[None]])


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
        self.embeddings = nn.ModuleDict()
        for column, count in lexicon_sizes.items():
            # From probabilities to the mean of embeddings; the weight is [size, values].
            self.embeddings[column] = layer = nn.Linear(count, tags.embedding_size, bias=False)
            nn.init.normal_(layer.weight, std=tags.embedding_size**-0.5)
        inputs = size + tags.embedding_size * len(lexicon_sizes)
        self.lstm = bilstm(inputs, size // len(DIRECTIONS), tags.layers_above, settings.dropout)
        self.dropout = settings.dropout

    def forward(self, words: Tensor, scores: Sequence[Tensor], lengths: Sequence[int]) -> Tensor:
        """[W, size] New word vectors. words: [W, size]. scores: see `EncodedWords`. lengths: in words."""
        tags = [
            linear(of_column.softmax(1), embedding.weight)  # type: ignore[arg-type]
            for of_column, embedding in zip(scores, self.embeddings.values(), strict=True)
        ]
        above = run_bilstm(self.lstm, torch.cat([words, *tags], dim=1), lengths)
        return dropout(above, self.dropout, self.training)


class SummedEmbedding(nn.Module):
    """The sum of the embeddings of the parts of a string; zeros for a string without parts."""

    def __init__(self, parts: int, size: int):
        super().__init__()
        self.parts = trained_embedding(parts, size)
        self.size = size

    def forward(self, strings: Ragged) -> Tensor:
        """[strings, size] The summed embeddings. strings: part numbers of each string."""
        return F.embedding_bag(strings.values, self.parts.weight, strings.offsets, mode="sum")


def _embedding(column: str, settings: NetworkSettings, count: int, vectors: Tensor | None) -> nn.Module:
    """The embedding of a column whose lexicon has `count` entries."""
    if column == PRETRAINED:
        return _pretrained(count, vectors, settings.train_pretrained)
    if column == CHARACTERS:
        assert settings.characters
        if isinstance(settings.characters, CharacterLSTMSettings):
            return CharacterLSTM(settings.characters, count)
        return CharacterEncoder(settings.characters, count)
    if column == "form":
        return trained_embedding(count, settings.word_size)
    if column == TREEBANK:
        assert settings.treebank_size
        return trained_embedding(count, settings.treebank_size)
    size = settings.tag_sizes[column]
    return SummedEmbedding(count, size) if division_of(column) else trained_embedding(count, size)


def _width(embedding: nn.Module) -> int:
    size = embedding.embedding_dim if isinstance(embedding, nn.Embedding) else embedding.size
    assert isinstance(size, int)
    return size


def trained_embedding(count: int, size: int) -> nn.Embedding:
    """A randomly initialised embedding, with zeros for the unknown string."""
    embedding = nn.Embedding(count, size)
    nn.init.normal_(embedding.weight, std=size**-0.5)
    with torch.no_grad():
        embedding.weight[UNKNOWN] = 0  # stays zero if the training data has no unknown string
    return embedding


def _pretrained(count: int, vectors: Tensor | None, train: bool) -> nn.Embedding:
    """The pretrained vectors, with zeros for words without one."""
    assert vectors is not None
    assert len(vectors) == count - 1
    return nn.Embedding.from_pretrained(
        torch.cat([vectors.new_zeros(1, vectors.shape[1]), vectors]), freeze=not train
    )


def dropout_of_embeddings(parts: list[Tensor], probability: float, training: bool) -> list[Tensor]:
    """Replace whole embeddings of words by zeros, and scale up the word's other ones (Dozat & Manning 2017).

    parts: [words, size] for each column.
    """
    if not training or probability == 0 or len(parts) == 1:
        return parts
    kept = torch.rand(len(parts), len(parts[0]), 1, device=parts[0].device) >= probability
    scale = len(parts) / kept.sum(0).clamp(min=1)  # [words, 1]
    return [part * (is_kept * scale) for part, is_kept in zip(parts, kept, strict=True)]
