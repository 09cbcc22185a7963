"""Word vectors from characters: the last states of a bidirectional LSTM over the word (Ling et al. 2015).

A batch has hundreds of short strings. Training on a CPU pads strings of similar lengths together.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from parser.batching.functional import dropout
from parser.batching.ragged import Ragged, gather_rows, group_size
from parser.networks.bilstm import bilstm, bilstm_padded
from parser.networks.settings import CharacterLSTMSettings


class CharacterLSTM(nn.Module):
    """[state after the last character; state after the first character, read from the end]."""

    def __init__(self, settings: CharacterLSTMSettings, characters: int):
        """characters: number of characters, including the unknown one."""
        super().__init__()
        # Of standard deviation 1: an LSTM learns slowly from vectors as small as those of other embeddings.
        self.embedding = nn.Embedding(characters, settings.size)
        self.lstm = bilstm(settings.size, settings.hidden_size, layers=1)
        self.dropout, self.size = settings.dropout, settings.vector_size

    def forward(self, strings: Ragged) -> Tensor:
        """[strings, size] The vectors of strings. strings: character numbers, at least one in each string."""
        characters = dropout(self.embedding.weight, self.dropout, self.training)
        inputs = gather_rows(characters, strings.values)
        states = bilstm_padded(self.lstm, inputs, strings.host_lengths.tolist(), group_size(inputs.device))
        first = strings.offsets
        of_directions = zip(states.chunk(2, dim=1), (first + strings.lengths - 1, first), strict=True)
        return torch.cat([direction.index_select(0, end) for direction, end in of_directions], dim=1)
