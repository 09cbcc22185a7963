"""Layers of a trained network, made from its weights by their names in the file of a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from parser.networks.settings import DIRECTIONS
from parser.runtime.kernels import Kernels
from parser.runtime.reference import Floats, Integers


class LinearLayer:
    def __init__(self, kernels: Kernels, weight: Floats, bias: Floats | None = None, is_int8: bool = False):
        """weight: [outputs, inputs]. bias: [outputs]. is_int8: whether products round to 8 bits."""
        self._kernels: Any = kernels
        self.packed: Any = kernels.pack(weight, bias, is_int8)

    def __call__(self, inputs: Floats) -> Floats:
        """[rows, outputs] inputs: [rows, inputs]."""
        outputs: Floats = self._kernels.linear(self.packed, inputs)
        return outputs


class LSTMWeights(NamedTuple):
    """Those of one layer and direction. The gates are in the order input, forget, cell, output."""

    of_input: Floats
    """[4 * hidden, inputs]"""
    recurrent: Floats
    """[4 * hidden, hidden]"""
    bias: Floats
    """[4 * hidden]"""

    @classmethod
    def of(cls, weights: Mapping[str, Floats], name: str, layer: int, direction: str = "") -> LSTMWeights:
        end = f"l{layer}{direction}"
        of_input, recurrent, *biases = (
            weights[f"{name}.{kind}_{end}"] for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        return cls(of_input, recurrent, sum(biases, np.zeros_like(biases[0])))

    def layers(self, kernels: Kernels, is_int8: bool) -> tuple[LinearLayer, LinearLayer]:
        """What the inputs, and what the hidden state adds to the gates."""
        of_input = LinearLayer(kernels, self.of_input, self.bias, is_int8)
        return of_input, LinearLayer(kernels, self.recurrent, None, is_int8)


def layers_of(weights: Mapping[str, Floats], name: str) -> int:
    """The number of layers of an LSTM."""
    layers = 0
    while f"{name}.weight_ih_l{layers}" in weights:
        layers += 1
    return layers


class BiLSTM:
    """A bidirectional LSTM over sentences."""

    def __init__(self, kernels: Kernels, weights: Mapping[str, Floats], name: str, is_int8: bool):
        self._kernels: Any = kernels
        self._layers = []
        for layer in range(layers_of(weights, name)):
            both = [LSTMWeights.of(weights, name, layer, direction) for direction in DIRECTIONS]
            weight = np.concatenate([each.of_input for each in both])
            bias = np.concatenate([each.bias for each in both])
            recurrent = [LinearLayer(kernels, each.recurrent, None, is_int8) for each in both]
            self._layers.append((LinearLayer(kernels, weight, bias, is_int8), recurrent))
        self.size = 2 * weights[f"{name}.weight_hh_l0"].shape[1]

    def __call__(self, words: Floats, lengths: Integers) -> Floats:
        """[W, size] The states of both directions. words: [W, inputs]. lengths: [sentences] in words."""
        hidden = self.size // 2
        for of_input, both in self._layers:
            states = np.empty((len(words), self.size), np.float32)
            # One product for both directions, whose gates take turns in its rows.
            gates = of_input(words).reshape(-1, 4 * hidden)  # [2 * W, 4 * hidden]
            for direction, recurrent in enumerate(both):
                part = states[:, direction * hidden : (direction + 1) * hidden]
                rows = np.arange(direction, len(gates), 2, dtype=np.int32)
                self._kernels.lstm(recurrent.packed, gates, lengths, part, backward=direction == 1, rows=rows)
            words = states
        return words


class TableBiLSTM:
    """A bidirectional LSTM of one layer over rows of a table, whose gates are computed once for each row."""

    def __init__(
        self, kernels: Kernels, weights: Mapping[str, Floats], name: str, table: Floats, is_int8: bool
    ):
        """table: [inputs, size]. is_int8: whether the products with states round to 8 bits."""
        self._kernels: Any = kernels
        self._directions: list[tuple[Floats, LinearLayer]] = []
        """The gates of each input [inputs, 4 * hidden], and what states add to gates."""
        for direction in DIRECTIONS:
            of_direction = LSTMWeights.of(weights, name, 0, direction)
            gates = LinearLayer(kernels, of_direction.of_input, of_direction.bias)(table)
            self._directions.append((gates, LinearLayer(kernels, of_direction.recurrent, None, is_int8)))
        self.hidden = weights[f"{name}.weight_hh_l0"].shape[1]

    def __call__(self, rows: Integers, lengths: Integers) -> Floats:
        """[frames, 2 * hidden] rows: [frames] of the table. lengths: [sequences] in frames."""
        states = np.empty((len(rows), 2 * self.hidden), np.float32)
        for direction, (gates, recurrent) in enumerate(self._directions):
            part = states[:, direction * self.hidden : (direction + 1) * self.hidden]
            self._kernels.lstm(recurrent.packed, gates, lengths, part, backward=direction == 1, rows=rows)
        return states


def softmax(scores: Floats) -> Floats:
    """[rows, n] Over each row of scores [rows, n]."""
    powers = np.exp(scores - scores.max(1, keepdims=True))
    probabilities: Floats = powers / powers.sum(1, keepdims=True)
    return probabilities
