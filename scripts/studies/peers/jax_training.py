"""Code shared by the JAX programs: padded batches, and steps of Adam from our weights."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("NPROC", "1")  # number of threads, which JAX reads at its start
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")

import jax
import jax.numpy as jnp
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))  # modules shared by scripts

from same_work import Array, Problem, print_speed

TABLE = "words.weight"
NO_LABEL = -1
"""The label of padding."""
DECAYS, EPSILON = (0.9, 0.999), 1e-8
"""Parameters of Adam, as in PyTorch."""
Batch = Mapping[str, Any]
Loss = Callable[[Batch, jax.Array, Batch], jax.Array]
"""Returns a batch's loss from the weights, the vectors of `words` [..., size], and the other arrays."""


class Moments(NamedTuple):
    """Adam's moments of weights, by their names, or of a table."""

    mean: Any
    square: Any


class State(NamedTuple):
    step: jax.Array
    weights: dict[str, jax.Array]
    moments: Moments
    table: jax.Array
    """The vectors of words. A step updates only the rows that it reads."""
    table_moments: Moments


def time_training(
    loss: Loss, pad: Callable[[Sequence[Any]], Batch], examples: Sequence[Any], given: argparse.Namespace
) -> None:
    """Compare the loss of the first batch with ours, and print examples per second.

    Each shape of a batch is compiled before the timing starts; the compilation time is printed.

    pad: the arrays of a batch, of which `words` are read from the table.
    """
    problem = Problem(given.problem)
    batches = problem.batches(examples)
    state = _first_state(problem)
    loss_now = jax.jit(partial(_total, loss))
    step = jax.jit(partial(_step, loss, float(problem.array("learning_rate"))), donate_argnums=0)
    compiled: dict[Any, Any] = {}

    def take(batch: Sequence[Any]) -> None:
        nonlocal state
        arrays = _with_rows(pad(batch), len(state.table))
        state, total = _compiled(compiled, step, state, arrays)(state, arrays)
        total.block_until_ready()

    def first_loss() -> float:
        arrays = _with_rows(pad(batches[0]), len(state.table))
        return float(loss_now(state.weights, state.table[arrays["rows"]], arrays))

    began = time.perf_counter()
    for batch in batches[: given.warmup + given.batches]:
        _compiled(compiled, step, state, _with_rows(pad(batch), len(state.table)))
    print(f"compiled for {len(compiled)} shapes in {time.perf_counter() - began:.1f} s")
    problem.check(first_loss, partial(take, batches[0]))
    print_speed(take, batches, len, given)


def padded(arrays: Sequence[Array], length: int, padding: int = 0) -> Array:
    """The arrays padded to one length, [arrays, length]."""
    rows = np.full((len(arrays), length), padding, np.int32)
    for row, array in zip(rows, arrays, strict=True):
        row[: len(array)] = array
    return rows


def rounded(number: int, unit: int) -> int:
    """The number rounded up to a multiple of `unit`, so that few shapes are compiled."""
    return -(-int(number) // unit) * unit


def cross_entropy(scores: jax.Array, labels: jax.Array) -> jax.Array:
    """The cross-entropy, summed over the rows with a label. scores: [rows, labels]"""
    chosen = jnp.take_along_axis(jax.nn.log_softmax(scores), labels[:, None], axis=1)[:, 0]
    return -jnp.where(labels == NO_LABEL, 0, chosen).sum()


def linear(weights: Batch, name: str, inputs: jax.Array) -> jax.Array:
    return inputs @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def _first_state(problem: Problem) -> State:
    arrays = {name: jnp.asarray(array) for name, array in problem.weights().items()}
    table = arrays.pop(TABLE)
    weights = {name: array for name, array in arrays.items() if "bias_hh" not in name}  # which stay zero
    return State(jnp.zeros(()), weights, _no_moments(weights), table, _no_moments(table))


def _no_moments(weights: Any) -> Moments:
    return Moments(*(jax.tree.map(jnp.zeros_like, weights) for _ in range(2)))


def _with_rows(arrays: Batch, table_size: int) -> Batch:
    """The arrays with the table's rows that are read, each once, and each word's position among these rows.

    `rows` has as many numbers as there are words, so that its shape causes no further compilation; surplus
    numbers are outside the table.
    """
    used, positions = np.unique(arrays["words"], return_inverse=True)
    rows = np.full(positions.size, table_size, np.int32)
    rows[: len(used)] = used
    return {**arrays, "rows": rows, "positions": positions.reshape(arrays["words"].shape).astype(np.int32)}


def _compiled(compiled: dict[Any, Any], step: Any, state: State, arrays: Batch) -> Any:
    """The compiled step for batches of this shape."""
    shape = tuple(array.shape for array in arrays.values())
    if shape not in compiled:
        compiled[shape] = step.lower(state, arrays).compile()
    return compiled[shape]


def _total(loss: Loss, weights: Batch, read: jax.Array, arrays: Batch) -> jax.Array:
    """The loss of a batch. read: [rows, size], the vectors of `rows`."""
    return loss(weights, read[arrays["positions"]], arrays)


def _step(loss: Loss, rate: float, state: State, arrays: Batch) -> tuple[State, jax.Array]:
    rows, step = arrays["rows"], state.step + 1
    used = state.table[rows]
    total, gradients = jax.value_and_grad(partial(_total, loss), (0, 1))(state.weights, used, arrays)
    weights, moments = _adam(rate, step, state.weights, state.moments, gradients[0])
    read_moments = Moments(*(moment[rows] for moment in state.table_moments))
    used, read_moments = _adam(rate, step, used, read_moments, gradients[1])
    table = state.table.at[rows].set(used)  # rows outside the table are dropped
    table_moments = Moments(
        *(old.at[rows].set(new) for old, new in zip(state.table_moments, read_moments, strict=True))
    )
    return State(step, weights, moments, table, table_moments), total


def _adam(
    rate: float, step: jax.Array, weights: Any, moments: Moments, gradients: Any
) -> tuple[Any, Moments]:
    decay, square_decay = DECAYS
    mean = jax.tree.map(lambda old, new: decay * old + (1 - decay) * new, moments.mean, gradients)
    square = jax.tree.map(
        lambda old, new: square_decay * old + (1 - square_decay) * new * new, moments.square, gradients
    )

    def updated(weight: jax.Array, mean: jax.Array, square: jax.Array) -> jax.Array:
        size = jnp.sqrt(square / (1 - square_decay**step)) + EPSILON
        return weight - rate * mean / (1 - decay**step) / size

    return jax.tree.map(updated, weights, mean, square), Moments(mean, square)
