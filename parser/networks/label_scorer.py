"""A scorer of the labels of arcs (Kiperwasser & Goldberg 2016, section 5.1): one hidden layer over two words.

It reads the same word vectors as the parser, like `arc_scorer`.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from parser.batching.device import to_device
from parser.batching.functional import dropout, linear
from parser.batching.ragged import gather_rows
from parser.treebank.vocabulary import UNKNOWN


class LabelScorer(nn.Module):
    def __init__(self, inputs: int, size: int, labels: int, dropout: float):
        """inputs: size of the word vectors. size: size of the hidden layer. dropout: applied to both."""
        super().__init__()
        self.head = nn.Linear(inputs, size)
        self.dependent = nn.Linear(inputs, size, bias=False)
        self.labels = nn.Linear(size, labels)
        self.dropout = dropout

    def forward(self, table: Tensor, lengths: Tensor, heads: Tensor) -> Tensor:
        """[W, labels] The scores of the labels of the arcs from `heads` [W] to all words.

        table: [W + 2, inputs], see `EncodedWords`. lengths: [sentences] in words, on the host. heads: word
        numbers in the sentence; 0 for ROOT.
        """
        vectors = dropout(table, self.dropout, self.training)
        as_heads = linear(vectors, self.head.weight, self.head.bias)  # [W + 2, size]
        as_dependents = linear(vectors[:-2], self.dependent.weight)  # [W, size]
        return self._output(gather_rows(as_heads, _rows_of(heads, lengths)) + as_dependents)

    def scores(self, heads: Tensor, dependents: Tensor) -> Tensor:
        """[arcs, labels] Like `forward`, for given arcs. heads, dependents: [arcs, inputs] word vectors."""
        as_heads = linear(heads, self.head.weight, self.head.bias)
        return self._output(as_heads + linear(dependents, self.dependent.weight))

    def _output(self, hidden: Tensor) -> Tensor:
        hidden = dropout(F.relu(hidden), self.dropout, self.training)
        return linear(hidden, self.labels.weight, self.labels.bias)

    def loss(self, table: Tensor, lengths: Tensor, heads: Tensor, labels: Tensor) -> Tensor:
        """The summed cross entropy of the gold labels [W]. Unknown labels, and labels of unknown heads, are
        ignored."""
        scores = self(table, lengths, heads)
        return F.cross_entropy(scores, labels, ignore_index=UNKNOWN, reduction="sum")


def _rows_of(heads: Tensor, lengths: Tensor) -> Tensor:
    """[W] The table rows of heads [W]; the row of ROOT follows the words."""
    starts = to_device((lengths.cumsum(0) - lengths).repeat_interleave(lengths), heads.device)
    return torch.where(heads > 0, starts + heads - 1, len(heads))
