"""LSTMs with dropout between their layers, whose random numbers are PyTorch's.

In one call for several layers, cuDNN draws the dropout from a random state of its own, which can neither be
saved nor set, so a resumed training would go on with other numbers. Here each layer is one call.
"""

from __future__ import annotations

from itertools import chain

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from parser.batching.functional import dropout


def lstm_with_dropout(
    inputs: int, hidden: int, layers: int, dropout: float, bidirectional: bool = False
) -> nn.LSTM:
    """Create an LSTM. hidden: size of each direction. dropout: between the layers."""
    if layers == 1 or not dropout:
        return nn.LSTM(inputs, hidden, layers, bidirectional=bidirectional)
    return LayeredLSTM(inputs, hidden, layers, dropout=dropout, bidirectional=bidirectional)


class LayeredLSTM(nn.LSTM):
    """Like `torch.nn.LSTM` with biases, but each layer is one call of `torch.lstm`."""

    def flatten_parameters(self) -> None:
        """Move the weights of each layer to a block of memory, which cuDNN needs for each call."""
        for number in range(self.num_layers):
            weights = self._layer(number)
            single = nn.LSTM(
                weights[0].shape[1], self.hidden_size, bidirectional=self.bidirectional, device="meta"
            )
            for name, weight in zip(dict(single.named_parameters()), weights, strict=True):
                setattr(single, name, weight)
            single.flatten_parameters()

    def forward(  # type: ignore[override]
        self, input: Tensor | PackedSequence, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor | PackedSequence, tuple[Tensor, Tensor]]:
        """Return the hidden states of the top layer, and the last states of all layers.

        input: [frames, batch, input], or packed from the longest to the shortest sequence. hx: the hidden and
        the cell states before, [layers * directions, batch, hidden] each; None for zeros. A single sequence
        may lack the dimension of the batch. Raises ValueError for packed sequences in another order.
        """
        if isinstance(input, Tensor) and input.dim() == 2:
            outputs, last = self(input[:, None], hx and (hx[0][:, None], hx[1][:, None]))
            return outputs[:, 0], (last[0][:, 0], last[1][:, 0])
        if isinstance(input, PackedSequence) and input.unsorted_indices is not None:
            raise ValueError("packed sequences must be sorted from the longest to the shortest")
        data, batch_sizes = (input, None) if isinstance(input, Tensor) else input[:2]
        batch = data.shape[1] if batch_sizes is None else int(batch_sizes[0])
        directions = 1 + self.bidirectional
        zeros = data.new_zeros(directions, batch, self.hidden_size)
        found = []
        for number in range(self.num_layers):
            if number:
                data = dropout(data, self.dropout, self.training)
            own = slice(directions * number, directions * (number + 1))
            before = (hx[0][own], hx[1][own]) if hx else (zeros, zeros)
            how = self._layer(number), True, 1, 0.0, self.training, self.bidirectional
            if batch_sizes is None:
                data, *states = torch.lstm(data, before, *how, False)
            else:
                data, *states = torch.lstm(data, batch_sizes, before, *how)
            found.append(states)
        hidden, cell = map(torch.cat, zip(*found, strict=True))
        return data if batch_sizes is None else PackedSequence(data, batch_sizes), (hidden, cell)

    def _layer(self, number: int) -> list[Tensor]:
        """The weights of a layer in PyTorch's order, both directions one after the other."""
        directions = 1 + self.bidirectional
        return list(chain(*self.all_weights[directions * number : directions * (number + 1)]))
