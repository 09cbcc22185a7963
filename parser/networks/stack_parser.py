"""The StackLSTM parser (Dyer et al. 2015, section 3; Ding & Koehn 2019, section 2).

`StackParser.replay` computes the scores of all steps of known trajectories at once, and
`parser.networks.stepping` runs one transition at a time, as parsing requires. Both compute the same function.

A composed vector depends on the vectors of the head and the dependent, but on no LSTM state. So for known
trajectories all composed vectors are computed first, level by level. As in `forest_lstm`, a custom backward
pass avoids the overhead of autograd at each level.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from parser.batching.forest_lstm import lstm_over_forest
from parser.batching.functional import dropout, linear
from parser.batching.lstm import lstm_with_dropout, outputs_of
from parser.batching.ragged import flatten, gather_rows
from parser.networks.loss import BatchLoss, Objective, tag_loss, transition_loss
from parser.networks.replay.batch import Batch
from parser.networks.scorers import ArcScorer, LabelScorer
from parser.networks.settings import FEATURE_WORDS, NetworkSettings
from parser.networks.token_encoder import LayersAboveTags, TokenEncoder
from parser.transitions.inventory import Inventory
from parser.treebank.tokens import Tokens

if TYPE_CHECKING:
    from parser.networks.transformer.encoder import TransformerEncoder
from typing import Any

from torch.autograd import Function
from torch.autograd.function import once_differentiable

from parser.batching.functional import times_transposed, transposed_times
from parser.networks.replay.batch import Compositions


class EncodedWords(NamedTuple):
    table: Tensor
    """[W + 2, token] The vectors of the words, ROOT and the end of the buffer."""
    tag_scores: list[Tensor]
    """For each predicted column [W, lexicon] The scores of its values."""


class WordVectors(NamedTuple):
    """Vectors that are computed only once for words that are equal in all columns."""

    table: Tensor
    """[distinct words + 2, token] The last two rows are for ROOT and the end of the buffer."""
    row: Tensor
    """[words + 2] The table row of each word, of ROOT and of the end of the buffer; on the host."""


class EncodedSentences(NamedTuple):
    """Sentences, and their words as a network encodes them."""

    tokens: Tokens
    """On the host."""
    words: WordVectors

    @property
    def positions(self) -> int:
        """Number of positions in tables: one for each buffer front, and one shared by all sentences."""
        return self.tokens.words + len(self.tokens) + 1

    def tables(self) -> list[Tensor]:
        """[W + 2, token] For each sentence, the vectors of its words, ROOT and the end of the buffer."""
        *words, root_and_end = self.words.row.split([*self.tokens.lengths.tolist(), 2])
        return [
            self.words.table.index_select(0, torch.cat([of_sentence, root_and_end])) for of_sentence in words
        ]


class StackParser(nn.Module):
    """LSTMs over the stack, the buffer and the previous transitions, and a scorer of transitions."""

    def __init__(
        self,
        settings: NetworkSettings,
        lexicon_sizes: dict[str, int],
        transitions: int,
        vectors: Tensor | None = None,
        predicted_sizes: Mapping[str, int] | None = None,
        transformer: TransformerEncoder | None = None,
        labels: int = 0,
    ):
        """lexicon_sizes: for each input column, in order. transitions: number of labelled transitions.
        labels: number of labels, the unknown one included.

        vectors: [words, size] pretrained vectors. predicted_sizes: lexicon sizes of the predicted columns.
        transformer: see `TokenEncoder`.
        """
        super().__init__()
        self.tokens = TokenEncoder(settings, lexicon_sizes, vectors, transformer)
        self.composition = Composition(self.tokens.size, transitions) if settings.composition else None
        self.transition_embeddings = nn.Embedding(transitions + 1, settings.transition_size)
        nn.init.normal_(self.transition_embeddings.weight, std=settings.transition_size**-0.5)
        self.stack = _lstm(self.tokens.size, settings)
        self.buffer = _lstm(self.tokens.size, settings)
        self.history = _lstm(settings.transition_size, settings)
        self.from_stack = nn.Linear(settings.hidden_size, settings.hidden_size)
        self.from_buffer = nn.Linear(settings.hidden_size, settings.hidden_size, bias=False)
        self.from_history = nn.Linear(settings.hidden_size, settings.hidden_size, bias=False)
        self.from_words = None
        if settings.word_features:
            self.from_words = nn.Linear(self.tokens.size, FEATURE_WORDS * settings.hidden_size, bias=False)
        self.scores = nn.Linear(settings.hidden_size, transitions)
        predicted_sizes = predicted_sizes or {}
        self.tags = nn.ModuleDict(
            {column: nn.Linear(self.tokens.size, count) for column, count in predicted_sizes.items()}
        )
        self.layers_above_tags = None
        if settings.tags.layers_above:
            self.layers_above_tags = LayersAboveTags(settings, self.tokens.size, predicted_sizes)
        self.arcs = self.labels = None
        if settings.arcs:
            self.arcs = ArcScorer(self.tokens.size, settings.arcs.size, settings.dropout)
            self.labels = LabelScorer(self.tokens.size, settings.arcs.size, labels, settings.dropout)
            self._arc_weight = settings.arcs.loss_weight
        self._read_columns, self._tag_weight = len(lexicon_sizes), settings.tags.loss_weight
        self.dropout = settings.dropout

    def forward(self, batch: Batch, inventory: Inventory, objective: Objective = "likelihood") -> BatchLoss:
        """The loss of a batch of known trajectories, by replay."""
        words = self.encode(batch.tokens)
        scores = self.replay_words(words.table, batch)  # [S, transitions]
        return self.loss(scores, words, batch, inventory, objective)

    def loss(
        self,
        scores: Tensor,
        words: EncodedWords,
        batch: Batch,
        inventory: Inventory,
        objective: Objective = "likelihood",
    ) -> BatchLoss:
        """The loss of a batch. scores: [S, transitions] at all steps."""
        of_words = self.tagging_loss(words.tag_scores, batch.tokens)
        if self.arcs and self.labels:
            table, lengths, heads = words.table, batch.tokens.lengths, batch.heads
            of_arcs = self.arcs.loss(table, lengths, heads, batch.soft_heads)
            # Labels don't train the word vectors, which learn labels from transitions already.
            of_labels = self.labels.loss(table.detach(), lengths, heads, batch.labels)
            of_words = of_words + self._arc_weight * (of_arcs + of_labels)
        return BatchLoss(transition_loss(scores, batch, inventory, objective), of_words)

    def replay(self, batch: Batch) -> Tensor:
        """[S, transitions] Scores at all steps of known trajectories."""
        return self.replay_words(self.word_table(batch.tokens), batch)

    def encode(self, tokens: Tokens) -> EncodedWords:
        """The vectors of words, and the tags that are predicted from them."""
        words = self.tokens(tokens)  # [W, token]
        tag_scores = self._tag_scores(words)
        return EncodedWords(self._above_tags(words, tag_scores, tokens), tag_scores)

    def encode_distinct(self, tokens: Tokens) -> tuple[WordVectors, list[Tensor]]:
        """Like `encode`, but equal words share one row of the table and of the scores.

        tokens: on the host. With a sentence encoder or a transformer, all words are distinct.
        """
        row = torch.arange(tokens.words)
        if self.tokens.sentence_encoder is None and self.tokens.transformer is None:
            tokens, row = tokens.distinct()
        root_and_end = torch.tensor([tokens.words, tokens.words + 1])
        table, tag_scores = self.encode(tokens.to(self.tokens.root.device))
        return WordVectors(table, torch.cat([row, root_and_end])), tag_scores

    def word_table(self, tokens: Tokens) -> Tensor:
        """`EncodedWords.table` alone; tags are scored only if the parser reads them."""
        words = self.tokens(tokens)  # [W, token]
        return self._above_tags(words, self._tag_scores(words) if self.layers_above_tags else [], tokens)

    def _tag_scores(self, words: Tensor) -> list[Tensor]:
        """See `EncodedWords.tag_scores`. words: [W, token]."""
        return [linear(words, layer.weight, layer.bias) for layer in self.tags.values()]  # type: ignore[arg-type]

    def _above_tags(self, words: Tensor, tag_scores: Sequence[Tensor], tokens: Tokens) -> Tensor:
        """See `EncodedWords.table`. words: [W, token], from which the tags are predicted."""
        if self.layers_above_tags:
            words = self.layers_above_tags(words, tag_scores, tokens.lengths.tolist())
        return self.tokens.table(words)

    def tagging_loss(self, tag_scores: Sequence[Tensor], tokens: Tokens) -> Tensor:
        """Summed and weighted cross entropy of the predicted columns.

        tag_scores: see `EncodedWords`. tokens: its predicted columns follow the columns that are read.
        """
        return self._tag_weight * tag_loss(tag_scores, tokens.values[:, self._read_columns :])

    def replay_words(self, table: Tensor, batch: Batch) -> Tensor:
        """Like `replay`, but from word vectors. table: [W + 2, token], see `EncodedWords`."""
        if self.composition:
            assert batch.compositions
            table = self.composition.replay(table, batch.compositions)  # [W + 2 + A, token]
        node_inputs = gather_rows(table, batch.node_vectors)  # [N, token]
        nodes = lstm_over_forest(self.stack, node_inputs, batch.forest)  # [N, hidden]
        joined = (
            gather_rows(self.linear_with_dropout(self.from_stack, nodes), batch.top_node)
            + gather_rows(self._buffer_features(table, batch), batch.buffer_row)
            + self.linear_with_dropout(self.from_history, gather_rows(self._history(batch), batch.step))
        )
        if self.from_words:
            projected = self.linear_with_dropout(self.from_words, table)  # [rows, FEATURE_WORDS * hidden]
            # [rows * FEATURE_WORDS, hidden]
            projected = projected.view(-1, projected.shape[1] // FEATURE_WORDS)
            indices = FEATURE_WORDS * batch.word_features + torch.arange(FEATURE_WORDS, device=table.device)
            joined = joined + F.embedding_bag(indices, projected, mode="sum")
        return self.score(joined)

    def _history(self, batch: Batch) -> Tensor:
        """[rows, hidden] The states of the LSTM over the transitions, indexed by `Batch.step`."""
        groups = (gather_rows(self.transition_embeddings.weight, group) for group in batch.history)
        return flatten([outputs_of(self.history, group) for group in groups])

    @property
    def is_of_ding_and_koehn(self) -> bool:
        """Whether this is the network of Ding & Koehn 2019, the only one that some baselines support."""
        return self.composition is None and self.from_words is None

    def project_words(self, top: Tensor, below: Tensor, front: Tensor) -> Tensor:
        """[batch, hidden] The projected word features from the vectors [batch, token] of S0, S1 and B0."""
        assert self.from_words is not None
        weights = self.from_words.weight.chunk(FEATURE_WORDS)
        vectors = (dropout(vector, self.dropout, self.training) for vector in (top, below, front))
        return sum(map(linear, vectors, weights), torch.zeros((), device=top.device))

    def _buffer_features(self, table: Tensor, batch: Batch) -> Tensor:
        """[rows, hidden] Projected buffer states, indexed by `Batch.buffer_row`."""
        if not batch.compositions:
            return self.project_buffer(table, batch.buffer_tokens)
        inputs = gather_rows(table, batch.compositions.buffer_vectors)
        nodes = lstm_over_forest(self.buffer, inputs, batch.compositions.buffer)
        return self.linear_with_dropout(self.from_buffer, nodes)

    def project_buffer(self, table: Tensor, buffer_tokens: Sequence[Tensor]) -> Tensor:
        """[rows, hidden] Projected buffer states without composition, flattened.

        table: [W + 2, token]. buffer_tokens: see `Batch.buffer_tokens`.
        """
        groups = (gather_rows(table, group) for group in buffer_tokens)
        buffer = flatten([outputs_of(self.buffer, group) for group in groups])  # [rows, hidden]
        return self.linear_with_dropout(self.from_buffer, buffer)

    def score_states(self, stack: Tensor, features: Tensor, history: Tensor) -> Tensor:
        """[batch, transitions] Scores from the outputs of LSTMs.

        stack, history: [batch, hidden]. features: [batch, hidden], the sum of the projected buffer states and
        the projected word features.
        """
        return self.score(
            self.linear_with_dropout(self.from_stack, stack)
            + features
            + self.linear_with_dropout(self.from_history, history)
        )

    def score(self, joined: Tensor) -> Tensor:
        """[..., transitions] Scores. joined: [..., hidden], sum of the projected stack, buffer, history."""
        return self.linear_with_dropout(self.scores, F.relu(joined))

    def linear_with_dropout(self, layer: nn.Linear, inputs: Tensor) -> Tensor:
        """[rows, out] Apply dropout, then a linear layer. inputs: [rows, in]."""
        return linear(dropout(inputs, self.dropout, self.training), layer.weight, layer.bias)


def _lstm(input_size: int, settings: NetworkSettings) -> nn.LSTM:
    return lstm_with_dropout(input_size, settings.hidden_size, settings.layers, settings.dropout)


class Composition(nn.Module):
    """The vector of a head with a new dependent (Dyer et al. 2015, section 3.2):
    g(head, dependent, transition) = tanh(W [head; dependent] + embedding of the transition)."""

    def __init__(self, size: int, transitions: int):
        """size: size of the vectors. transitions: number of labelled transitions."""
        super().__init__()
        self.join = nn.Linear(2 * size, size, bias=False)
        self.transitions = nn.Embedding(transitions + 1, size)
        nn.init.normal_(self.transitions.weight, std=0.1)

    def forward(self, head: Tensor, dependent: Tensor, transition: Tensor) -> Tensor:
        """[n, size] Composed vectors. head, dependent: [n, size]. transition: [n]; `no_op` is not used."""
        joined = torch.cat([head, dependent], dim=1)
        return torch.tanh(linear(joined, self.join.weight) + self.transitions(transition))

    def replay(self, table: Tensor, compositions: Compositions) -> Tensor:
        """[rows + A, size] The table [rows, size], followed by the composed vectors of a batch."""
        of_transition = gather_rows(self.transitions.weight, compositions.transition)
        return _Levels.apply(table, self.join.weight, of_transition, compositions)


class _Levels(Function):
    @staticmethod
    def forward(
        ctx: Any, table: Tensor, weight: Tensor, of_transition: Tensor, compositions: Compositions
    ) -> Tensor:
        """weight: [size, 2 * size]; of_transition: [A, size]."""
        rows = len(table)
        joined = table.new_empty(rows + len(of_transition), table.shape[1])
        joined[:rows] = table
        below = joined[rows:]
        for level in compositions.levels:
            parts = _pairs(joined, compositions.pairs[level])
            torch.tanh(times_transposed(parts, weight).add_(of_transition[level]), out=below[level])
        ctx.compositions = compositions
        ctx.save_for_backward(weight, joined)
        return joined

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        weight, joined = ctx.saved_tensors
        compositions, size = ctx.compositions, weight.shape[0]
        rows = len(joined) - len(compositions.pairs)
        gradient = gradient.clone()
        slope = 1 - joined[rows:].square()
        d_sum = gradient.new_empty(len(slope), size)
        for level in reversed(compositions.levels):
            torch.mul(gradient[rows:][level], slope[level], out=d_sum[level])
            d_pairs = times_transposed(d_sum[level], weight.T).reshape(-1, size)
            gradient.index_add_(0, compositions.pairs[level].flatten(), d_pairs)
        d_weight = transposed_times(d_sum, _pairs(joined, compositions.pairs))
        return gradient[:rows], d_weight, d_sum, None


def _pairs(joined: Tensor, rows: Tensor) -> Tensor:
    """[n, 2 * size] The concatenated vectors of heads and dependents. rows: [n, 2]."""
    return joined.index_select(0, rows.flatten()).view(len(rows), 2 * joined.shape[1])
