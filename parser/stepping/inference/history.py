"""The LSTM over the transitions of a batch of parsers."""

from __future__ import annotations

import torch
from torch import Tensor

from parser.networks.stack_parser import StackParser
from parser.stepping.inference.lstm import InferenceLSTM, LSTMStates
from parser.transitions.inventory import Inventory


class History:
    def __init__(self, network: StackParser, inventory: Inventory, batch: int):
        self._lstm = InferenceLSTM(network.history)
        # [transitions + 1, 4 * hidden]
        self._inputs = self._lstm.project(network.transition_embeddings.weight)
        self._first = self._lstm.zeros(1)
        self._lstm.advance(self._inputs[inventory.no_op][None].clone(), self._first, self._first)
        self._states = LSTMStates(*(part.repeat(batch, 1) for part in self._first))

    @property
    def output(self) -> Tensor:
        """[batch, hidden]"""
        return self._lstm.output(self._states)

    def restart(self, which: Tensor) -> None:
        """Return to the state before the first transition where `which` [batch] is True."""
        for first, own in zip(self._first, self._states, strict=True):
            torch.where(which[:, None], first, own, out=own)

    def advance(self, transitions: Tensor) -> None:
        """transitions: [batch]"""
        gates = self._inputs.index_select(0, transitions)  # [batch, 4 * hidden]
        self._lstm.advance(gates, self._states, self._states)
