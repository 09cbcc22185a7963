"""The network of the tokenizer, for training: a BiLSTM over characters, and one over units.

The first decides where tokens are divided; the second, which reads the first's states, decides the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from parser.batching.functional import dropout
from parser.networks.bilstm import bilstm, run_bilstm
from parser.text.bilstm.units import CATEGORIES, DECISIONS, UNIT_FEATURES
from parser.treebank.vocabulary import UNKNOWN

if TYPE_CHECKING:
    from parser.text.bilstm.kind import BiLSTMKind


@dataclass(frozen=True)
class TextBatch:
    """Windows of text, one after the other."""

    characters: Tensor
    """[characters] Their numbers."""
    categories: Tensor
    """[characters] The numbers of their Unicode categories."""
    lengths: Sequence[int]
    """Of the windows, in characters."""
    forms: Tensor
    """[units] Their numbers."""
    features: Tensor
    """[units, UNIT_FEATURES]"""
    firsts: Tensor
    """[units] The first character of each."""
    lasts: Tensor
    """[units] The last one."""
    units: Sequence[int]
    """Of the windows, in units."""


class TokenizerNetwork(nn.Module):
    def __init__(self, settings: BiLSTMKind, characters: int, forms: int):
        """characters, forms: the lengths of the lexicons, with the unknown string."""
        super().__init__()
        self.characters = nn.Embedding(characters, settings.character_size)
        self.categories = nn.Embedding(len(CATEGORIES), settings.character_size)
        self.character_lstm = bilstm(settings.character_size, settings.character_hidden_size, 1)
        states = 2 * settings.character_hidden_size
        self.divides = nn.Linear(states, 1)
        self.forms = nn.Embedding(forms, settings.form_size)
        inputs = states + settings.form_size + UNIT_FEATURES
        self.unit_lstm = bilstm(inputs, settings.hidden_size, 1)
        self.decides = nn.Linear(2 * settings.hidden_size + inputs + states, len(DECISIONS))
        self._settings = settings

    def forward(self, batch: TextBatch) -> tuple[Tensor, Tensor]:
        """[characters] Scores of a division after each character; and [units, decisions]."""
        rate = self._settings.dropout
        characters = self._replaced(batch.characters, self._settings.unknown_characters)
        # [characters, character_size]
        vectors = self.characters(characters) + self.categories(batch.categories)
        states = run_bilstm(self.character_lstm, dropout(vectors, rate, self.training), batch.lengths)
        states = dropout(states, rate, self.training)  # [characters, 2 * character_hidden_size]
        forms = self.forms(self._replaced(batch.forms, self._settings.unknown_forms))  # [units, form_size]
        at_first, at_last = states.index_select(0, batch.firsts), states.index_select(0, batch.lasts)
        # Each direction has read the unit when it is at its end.
        size = self._settings.character_hidden_size
        read = at_last[:, :size], at_first[:, size:]
        inputs = torch.cat([*read, forms, batch.features], dim=1)
        of_units = dropout(run_bilstm(self.unit_lstm, inputs, batch.units), rate, self.training)
        return self.divides(states)[:, 0], self.decides(torch.cat([of_units, inputs, at_last], dim=1))

    def _replaced(self, numbers: Tensor, probability: float) -> Tensor:
        """In training, some of the numbers are unknown, so that the network learns to do without."""
        if not self.training:
            return numbers
        return torch.where(torch.rand(numbers.shape, device=numbers.device) < probability, UNKNOWN, numbers)
