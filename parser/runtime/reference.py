"""What `kernels.c` computes, in NumPy: the reference, and what runs where the library is missing.

Sums of numbers of 8 bits are exact also in float32 or float64, and the functions below take the same steps
as those in C. So both give the same bits, except for products of float weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float32]
Integers: TypeAlias = NDArray[np.integer[Any]]
LARGEST = np.float32(127)
EXACT_INPUTS = 2**24 // 127**2
"""Products of so many numbers of 8 bits can be added up in float32 without rounding."""
STATE = 6
"""The size of a layer's state, in hidden sizes: 4 that it adds to the next gates, 1 that it adds to the input
of the scores (last layer), and 1 of its cells."""


class NumPyWeights(NamedTuple):
    """Those of a product, packed for one kind of kernels."""

    matrix: Any
    """NumPy: [inputs, outputs] float32, with whole numbers if the product rounds to 8 bits."""
    scales: Floats | None
    """[outputs] What a whole number stands for; None if the product does not round."""
    bias: Floats
    """[outputs]"""


class LSTM(NamedTuple):
    """The layers of an LSTM. The gates are in PyTorch's order: input, forget, cell, output."""

    inputs: Sequence[NumPyWeights]
    """Of each layer but the first, [hidden] to [4 * hidden]. The first layer's are applied beforehand."""
    recurrent: Sequence[NumPyWeights]
    """Of each layer, [hidden] to [4 * hidden]; those of the last can have further outputs, see `STATE`."""


def _factors(greatest: Floats) -> Floats:
    """By what rows are multiplied before they are rounded. greatest: [rows] their greatest sizes."""
    # So that the quotient is finite.
    return np.divide(LARGEST, greatest, out=np.zeros_like(greatest), where=greatest > np.float32(1e-35))


def rounded_weights(weight: Floats) -> tuple[NDArray[np.int8], Floats]:
    """Weights [outputs, inputs] as numbers of 8 bits, and what 1 stands for in each output."""
    greatest = np.abs(weight).max(1, initial=0)
    rounded = np.rint(weight * _factors(greatest)[:, None])
    return np.ascontiguousarray(rounded, np.int8), greatest / LARGEST


def exponential(x: Floats) -> Floats:
    """A power of 2 with a whole exponent, times a polynomial."""
    x = np.minimum(np.maximum(x, -60), 60) * np.float32(1.44269504088896341)
    whole = np.rint(x)
    x -= whole
    power = np.float32(1.54035304e-4) * x
    power += np.float32(1.33335581e-3)
    for coefficient in (9.61812911e-3, 5.55041087e-2, 2.40226507e-1, 6.93147181e-1, 1.0):
        power *= x
        power += np.float32(coefficient)
    power *= ((whole.astype(np.int32) + 127) << 23).view(np.float32)
    return power


def tanh(x: Floats) -> Floats:
    return np.float32(1) - np.float32(2) / (exponential(np.float32(2) * x) + np.float32(1))


def gelu(x: Floats) -> Floats:
    """x times the probability that a normal variable is below x, see `kernels.c`."""
    size = np.abs(x)
    root = size * np.float32(0.70710678118654752)
    part = np.float32(1) / (np.float32(1) + np.float32(0.3275911) * root)
    beyond = np.full_like(part, 1.061405429)
    for coefficient in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        beyond = beyond * part + np.float32(coefficient)
    beyond = beyond * part * exponential(-root * root) * np.float32(0.5)
    return np.maximum(x, 0) - size * beyond


FACTORS = np.array([[-1], [-1], [2], [-1]], np.float32)
"""[4, 1] The factors of gates: sigmoid(x) is 1 / (1 + exp(-x)), and tanh(x) is 1 - 2 / (1 + exp(2 x))."""


def cell(gates: Floats, cells: Floats) -> tuple[Floats, Floats]:
    """[rows, hidden] The hidden state and the cells after a step. gates: [rows, 4 * hidden]."""
    # [rows, 4, hidden] In one call: on few rows, calls take most of the time.
    shares = exponential(gates.reshape(len(gates), 4, cells.shape[1]) * FACTORS)
    shares += 1
    np.divide(1, shares, out=shares)
    of_in, of_forget, of_candidate, of_out = shares.swapaxes(0, 1)
    cells = of_forget * cells + of_in * (np.float32(1) - np.float32(2) * of_candidate)
    return of_out * tanh(cells), cells


class NumPyKernels:
    """The same interface as `CompiledKernels`."""

    name = "numpy"

    def pack(self, weight: Floats, bias: Floats | None = None, is_int8: bool = False) -> NumPyWeights:
        """weight: [outputs, inputs]. bias: [outputs]. is_int8: whether products round to 8 bits."""
        bias = np.zeros(len(weight), np.float32) if bias is None else bias
        if not is_int8:
            return NumPyWeights(np.ascontiguousarray(weight.T), None, bias)
        rounded, scales = rounded_weights(weight)
        exact = np.float32 if weight.shape[1] <= EXACT_INPUTS else np.float64
        return NumPyWeights(np.ascontiguousarray(rounded.T, exact), scales, bias)

    def pack_lstm(self, inputs: Sequence[NumPyWeights], recurrent: Sequence[NumPyWeights]) -> LSTM:
        return LSTM(inputs, recurrent)

    def linear(self, weights: NumPyWeights, inputs: Floats) -> Floats:
        """[rows, outputs] = inputs [rows, inputs] times the weights, plus the bias."""
        if weights.scales is None:
            # Row by row: a product of several rows would round a row differently in other company.
            return (inputs[:, None] @ weights.matrix)[:, 0] + weights.bias
        greatest = np.abs(inputs).max(1, initial=0)
        rounded = np.rint(inputs * _factors(greatest)[:, None])
        outputs = (rounded.astype(weights.matrix.dtype, copy=False) @ weights.matrix).astype(
            np.float32, copy=False
        )
        outputs *= weights.scales * (greatest / LARGEST)[:, None]
        outputs += weights.bias
        return outputs

    def arcs(
        self, heads: Floats, dependents: Floats, lengths: Integers, longest: int
    ) -> tuple[Floats, Floats]:
        """The scores of all heads of each word, less the greatest, in sentences of at most `longest` words.

        heads: [words + 1, size] of each word and of ROOT. dependents: [words, size]. Returns [n, n + 1] for
        each sentence, in one array, where ROOT is the first head; and [words] sums of their exponentials.
        """
        of_sentences, sums = [np.zeros(0, np.float32)], np.ones(len(dependents), np.float32)
        for start, end in pairwise([0, *lengths.cumsum().tolist()]):
            if end - start > longest:
                continue
            rows = np.r_[len(dependents), start:end]
            # Each on its own, as in `linear`.
            scores = (dependents[start:end, None] @ heads[rows].T)[:, 0]
            np.fill_diagonal(scores[:, 1:], -np.inf)
            scores -= scores.max(1, keepdims=True)
            sums[start:end] = exponential(scores).cumsum(1)[:, -1]
            of_sentences.append(scores.ravel())
        return np.concatenate(of_sentences), sums

    def gelu(self, values: Floats) -> None:
        """Replace values of any shape by their GELU (Hendrycks & Gimpel 2016)."""
        values[...] = gelu(values)

    def lstm(
        self,
        recurrent: NumPyWeights,
        gates: Floats,
        lengths: Integers,
        hidden: Floats,
        backward: bool = False,
        begin: Floats | None = None,
        rows: Integers | None = None,
    ) -> None:
        """Run one layer and direction over sequences, and write its states into `hidden` [frames, size].

        gates: [inputs, 4 * size] the part that depends on the inputs. lengths: [sequences] in frames. begin:
        [5 * size] what the state before the first frame adds to the gates, and its cells; default: zeros.
        rows: [frames] the input of each frame; default: each has its own.
        """
        size, starts = hidden.shape[1], lengths.cumsum() - lengths
        order = np.argsort(-lengths, kind="stable")
        first = np.zeros(5 * size, np.float32) if begin is None else begin
        of_hidden, cells = (
            np.tile(first[: 4 * size], (len(order), 1)),
            np.tile(first[4 * size :], (len(order), 1)),
        )
        for step in range(lengths.max(initial=0)):
            active = order[lengths[order] > step]
            frames = starts[active] + (lengths[active] - 1 - step if backward else step)
            of_inputs = gates[frames if rows is None else rows[frames]]
            states, cells = cell(of_inputs + of_hidden[: len(active)], cells[: len(active)])
            hidden[frames] = states
            of_hidden = self.linear(recurrent, states)

    def step(self, lstm: LSTM, gates: Floats, before: Floats) -> Floats:
        """[rows, layers, 6 * hidden] The states after one more input, see `STATE`.

        gates: [rows, 4 * hidden] of the first layer. before: the states before, like the result.
        """
        after = np.zeros((len(gates), *before.shape[1:]), np.float32)
        size = before.shape[2] // STATE
        hidden = np.zeros(0, np.float32)
        for layer, recurrent in enumerate(lstm.recurrent):
            if layer:
                gates = self.linear(lstm.inputs[layer - 1], hidden)
            hidden, after[:, layer, 5 * size :] = cell(
                gates + before[:, layer, : 4 * size], before[:, layer, 5 * size :]
            )
            added = self.linear(recurrent, hidden)
            after[:, layer, : added.shape[1]] = added
        return after
