"""The StackLSTM parser (Dyer et al. 2015, section 3; Ding & Koehn 2019, section 2).

`replay` runs known trajectories all at once. `parser.stepping` goes through sentences one transition
at a time, as the paper does and as parsing must; both compute the same function.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from parser.batching.padding import flatten
from parser.batching.product import linear
from parser.config import NetworkSettings
from parser.networks import stack_lstm
from parser.networks.composition import Composition
from parser.networks.dropout import dropout
from parser.networks.loss import BatchLoss, transition_loss
from parser.networks.token_encoder import TokenEncoder
from parser.replay.batch import Batch
from parser.transitions.inventory import Inventory
from parser.treebank.tokens import Tokens

FEATURE_WORDS = 3
"""Words that the scores may see: on top of the stack, below that, at the front of the buffer."""


class StackParser(nn.Module):
    """Three LSTMs, over the stack, the buffer and the transitions so far, and scores from what they show."""

    def __init__(
        self,
        settings: NetworkSettings,
        lexicon_sizes: dict[str, int],
        transitions: int,
        vectors: Tensor | None = None,
    ):
        """lexicon_sizes: of the word columns, in order. transitions: labelled. vectors: pretrained."""
        super().__init__()
        self.tokens = TokenEncoder(settings, lexicon_sizes, vectors)
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
        self.tags = nn.ModuleDict(
            {column: nn.Linear(self.tokens.size, lexicon_sizes[column]) for column in settings.auxiliary_tags}
        )
        self._tag_columns = [list(lexicon_sizes).index(column) for column in settings.auxiliary_tags]
        self.dropout = settings.dropout

    def forward(self, batch: Batch, inventory: Inventory) -> BatchLoss:
        """The loss of a batch of known trajectories, by replay."""
        table = self.tokens(batch.tokens)  # [W + 2, token]
        scores = self.replay_words(table, batch)  # [S, transitions]
        return BatchLoss(transition_loss(scores, batch, inventory), self.tagging_loss(table, batch.tokens))

    def replay(self, batch: Batch) -> Tensor:
        """[S, transitions] Scores of all steps of known trajectories, before each of them is taken."""
        return self.replay_words(self.tokens(batch.tokens), batch)

    def tagging_loss(self, table: Tensor, tokens: Tokens) -> Tensor:
        """Sum of the cross entropies of the tags that are learnt beside; table: [W + 2, token]."""
        losses = [table.new_zeros(())]
        for column, layer in zip(self._tag_columns, self.tags.values(), strict=True):
            assert isinstance(layer, nn.Linear)
            scores = linear(table[: tokens.words], layer.weight, layer.bias)  # [W, tags]
            losses.append(F.cross_entropy(scores, tokens.values[:, column], reduction="sum"))
        return torch.stack(losses).sum()

    def replay_words(self, table: Tensor, batch: Batch) -> Tensor:
        """As `replay`, from the words' vectors; table: [W + 2, token], as `tokens` gives it."""
        if self.composition:
            assert batch.compositions
            table = self.composition.replay(table, batch.compositions)  # [W + 2 + A, token]
        node_inputs = table.index_select(0, batch.node_vectors)  # [N, token]
        nodes = stack_lstm.over_forest(self.stack, node_inputs, batch.forest)  # [N, hidden]
        history = flatten(
            [self.history(self.transition_embeddings(group))[0] for group in batch.history]
        )  # [rows, hidden]
        joined = (
            self.linear_with_dropout(self.from_stack, nodes).index_select(0, batch.top_node)
            + self._buffer_features(table, batch).index_select(0, batch.buffer_row)
            + self.linear_with_dropout(self.from_history, history.index_select(0, batch.step))
        )
        if self.from_words:
            # [rows, FEATURE_WORDS * hidden] -> [rows * FEATURE_WORDS, hidden]: what each vector shows in each place
            shown = self.linear_with_dropout(self.from_words, table).view(-1, self.from_words.out_features // FEATURE_WORDS)
            places = FEATURE_WORDS * batch.word_features + torch.arange(FEATURE_WORDS, device=shown.device)
            joined = joined + F.embedding_bag(places, shown, mode="sum")
        return self.score(joined)

    @property
    def is_plain(self) -> bool:
        """Whether it is the paper's: some ways of running, there to be compared with, know that one alone."""
        return self.composition is None and self.from_words is None

    def project_words(self, top: Tensor, below: Tensor, front: Tensor) -> Tensor:
        """[batch, hidden] What vectors [batch, token] in these places show to the scores."""
        assert self.from_words is not None
        weights = self.from_words.weight.chunk(FEATURE_WORDS)
        vectors = (dropout(vector, self.dropout, self.training) for vector in (top, below, front))
        return sum(map(linear, vectors, weights), torch.zeros((), device=top.device))

    def _buffer_features(self, table: Tensor, batch: Batch) -> Tensor:
        """[rows, hidden] What the buffers show: for each front, and for what replaces it."""
        if not batch.compositions:
            return self.project_buffer(table, batch.buffer_tokens)
        inputs = table.index_select(0, batch.compositions.buffer_vectors)
        nodes = stack_lstm.over_forest(self.buffer, inputs, batch.compositions.buffer)
        return self.linear_with_dropout(self.from_buffer, nodes)

    def project_buffer(self, table: Tensor, buffer_tokens: Sequence[Tensor]) -> Tensor:
        """[rows, hidden] What the buffers show to the scores at each of their fronts, laid out flat.

        table: [W + 2, token]; buffer_tokens: for each group [frames, sentences], from the buffers' ends.
        """
        buffer = flatten([self.buffer(table[group])[0] for group in buffer_tokens])  # [rows, hidden]
        return self.linear_with_dropout(self.from_buffer, buffer)

    def score_states(self, stack: Tensor, shown: Tensor, history: Tensor) -> Tensor:
        """[batch, transitions] stack, history: [batch, state], as `stack_lstm.advance` gives them; shown:
        [batch, hidden], what `project_buffer` gives for the fronts, with what words show if they do."""
        top, last = stack_lstm.output(self.stack, stack), stack_lstm.output(self.history, history)
        return self.score(self.linear_with_dropout(self.from_stack, top) + shown + self.linear_with_dropout(self.from_history, last))

    def score(self, joined: Tensor) -> Tensor:
        """[..., transitions] from the sum [..., hidden] of what stack, buffer and history show."""
        return self.linear_with_dropout(self.scores, F.relu(joined))

    def linear_with_dropout(self, layer: nn.Linear, inputs: Tensor) -> Tensor:
        """[rows, out] A linear layer on inputs [rows, in], with dropout when training."""
        return linear(dropout(inputs, self.dropout, self.training), layer.weight, layer.bias)


def _lstm(input_size: int, settings: NetworkSettings) -> nn.LSTM:
    between_layers = settings.dropout if settings.layers > 1 else 0.0
    return nn.LSTM(input_size, settings.hidden_size, settings.layers, dropout=between_layers)
