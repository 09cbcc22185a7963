"""Code shared by the DyNet programs: the command line, LSTMs with our weights, and steps of Adam."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import dynet as dy
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))  # modules shared by scripts

from same_work import Array, Problem, argument_parser, print_speed

DIRECTIONS = "", "_reverse"


def arguments_of(description: str) -> argparse.Namespace:
    """The arguments of the command line. DyNet itself reads the options that start with --dynet."""
    parser = argument_parser(description)
    parser.add_argument("--dynet-autobatch", choices="012", help="1: by agenda; 2: by depth; 0: no batching")
    parser.add_argument("--dynet-mem", help="megabytes that DyNet has from the beginning")
    parser.add_argument("--builder", choices=BUILDERS, default="vanilla", help="of LSTMs")
    return parser.parse_args()


class Weights:
    """The weights of a problem as DyNet's parameters, by our names."""

    def __init__(self, problem: Problem):
        self.collection = dy.ParameterCollection()
        self._arrays = problem.weights()

    def __contains__(self, name: str) -> bool:
        return name in self._arrays

    def array(self, name: str) -> Array:
        return self._arrays[name]

    def parameter(self, name: str) -> dy.Parameters:
        return self.of_array(self._arrays[name])

    def of_array(self, array: Array) -> dy.Parameters:
        return self.collection.parameters_from_numpy(array)

    def table(self, name: str) -> dy.LookupParameters:
        return self.collection.lookup_parameters_from_numpy(self._arrays[name])

    def linear(self, name: str) -> tuple[dy.Parameters, dy.Parameters]:
        """The bias and the weight, in the order of `affine_transform`."""
        return self.parameter(f"{name}.bias"), self.parameter(f"{name}.weight")


class BiLSTM:
    """A bidirectional LSTM with the weights of an `nn.LSTM`."""

    def __init__(self, weights: Weights, name: str, builder: str):
        layers = 0
        while f"{name}.weight_ih_l{layers}" in weights:
            layers += 1
        self._layers = [
            [BUILDERS[builder](weights, name, f"l{layer}{way}") for way in DIRECTIONS]
            for layer in range(layers)
        ]

    def read(self, vectors: Sequence[dy.Expression]) -> tuple[list[dy.Expression], list[dy.Expression]]:
        """The states of the top layer in both directions, in the order of the vectors."""
        for forward, backward in self._layers[:-1]:
            left, right = _run(forward, vectors), _run(backward, vectors[::-1])[::-1]
            vectors = [dy.concatenate([*pair]) for pair in zip(left, right, strict=True)]
        forward, backward = self._layers[-1]
        return _run(forward, vectors), _run(backward, vectors[::-1])[::-1]


def _run(builder: Any, vectors: Sequence[dy.Expression]) -> list[dy.Expression]:
    return builder.initial_state().transduce(vectors)


def _vanilla(weights: Weights, name: str, layer: str) -> dy.VanillaLSTMBuilder:
    inputs, hidden = _sizes(weights, name, layer)
    return _filled(
        dy.VanillaLSTMBuilder(1, inputs, hidden, weights.collection, forget_bias=0.0), weights, name, layer, 0
    )


def _compact(weights: Weights, name: str, layer: str) -> dy.CompactVanillaLSTMBuilder:
    inputs, hidden = _sizes(weights, name, layer)
    return _filled(
        dy.CompactVanillaLSTMBuilder(1, inputs, hidden, weights.collection), weights, name, layer, 1
    )


BUILDERS: dict[str, Callable[[Weights, str, str], Any]] = {"vanilla": _vanilla, "compact": _compact}
"""Makers of LSTMs by name; `compact` has one node for all gates."""


def _sizes(weights: Weights, name: str, layer: str) -> tuple[int, int]:
    """The sizes of the input and of the state."""
    rows, inputs = weights.array(f"{name}.weight_ih_{layer}").shape
    return inputs, rows // 4


def _filled(builder: Any, weights: Weights, name: str, layer: str, forget_bias: float) -> Any:
    """The builder with our weights. forget_bias: what the builder itself adds to the forget gates' bias."""
    arrays = [weights.array(f"{name}.{part}_{layer}") for part in ("weight_ih", "weight_hh", "bias_ih")]
    for parameter, array in zip(builder.get_parameters()[0], arrays, strict=True):
        input_gate, forget_gate, cell_gate, output_gate = np.split(array, 4)
        if array.ndim == 1:
            forget_gate = forget_gate - np.float32(forget_bias)
        parameter.set_value(np.concatenate([input_gate, forget_gate, output_gate, cell_gate]))
    return builder


def time_training(
    loss: Callable[[Sequence[Any]], dy.Expression],
    examples: Sequence[Any],
    weights: Weights,
    given: argparse.Namespace,
) -> None:
    """Compare the loss of the first batch with ours, and print examples per second.

    loss: records a batch in the current graph, and returns the sum of its losses.
    """
    problem = Problem(given.problem)
    batches = problem.batches(examples)
    trainer = dy.AdamTrainer(weights.collection, alpha=float(problem.array("learning_rate")))
    trainer.set_clip_threshold(0)  # the other programs do not clip gradients

    def step(batch: Sequence[Any]) -> None:
        dy.renew_cg()
        total = loss(batch)
        total.forward()
        total.backward()
        trainer.update()

    def loss_now() -> float:
        dy.renew_cg()
        return loss(batches[0]).value()

    problem.check(loss_now, lambda: step(batches[0]))
    print_speed(step, batches, len, given)
