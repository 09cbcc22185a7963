"""The BiLSTM tagger in JAX, compared with ours: the same weights, batches and steps.

python scripts/studies/peers/jax_tagger.py runs/peers/problems/tagger

A sentence is read by `lax.scan`, and a batch by `vmap` of this scan over padded sentences. The script prints
the loss of the first batch, next to our program's, and sentences per second. The tagger reads no characters.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax_training import NO_LABEL, Batch, cross_entropy, linear, padded, rounded, time_training
from same_work import Array, Problem, argument_parser

LENGTH = 8
"""Lengths are rounded up to a multiple of this number."""


class Sentence(NamedTuple):
    words: Array
    labels: Array


def pad(sentences: Sequence[Sentence]) -> Batch:
    longest = rounded(max(len(sentence.words) for sentence in sentences), LENGTH)
    return {
        "words": padded([sentence.words for sentence in sentences], longest),
        "labels": padded([sentence.labels for sentence in sentences], longest, NO_LABEL),
    }


def loss(weights: Batch, vectors: jax.Array, batch: Batch) -> jax.Array:
    """The summed loss of all sentences. vectors: [sentences, words, size]"""
    return jax.vmap(partial(_loss_of_one, weights))(vectors, batch["labels"]).sum()


def _loss_of_one(weights: Batch, vectors: jax.Array, labels: jax.Array) -> jax.Array:
    """The loss of one sentence. vectors: [words, size]"""
    index, length = jnp.arange(len(vectors)), (labels != NO_LABEL).sum()
    backwards = jnp.where(index < length, length - 1 - index, index)  # padding stays after the words
    states, layer = vectors, 0
    while f"reader.weight_ih_l{layer}" in weights:
        forward = lstm(weights, f"l{layer}", states)
        backward = lstm(weights, f"l{layer}_reverse", states[backwards])[backwards]
        states, layer = jnp.concatenate([forward, backward], axis=1), layer + 1
    if "middle.weight" in weights:
        states = jnp.tanh(linear(weights, "middle", states))
    return cross_entropy(linear(weights, "scores", states), labels)


def lstm(weights: Batch, layer: str, vectors: jax.Array) -> jax.Array:
    """The hidden states, [words, hidden]. vectors: [words, size]"""
    weight_in, weight, bias = (
        weights[f"reader.{name}_{layer}"] for name in ("weight_ih", "weight_hh", "bias_ih")
    )

    def step(
        states: tuple[jax.Array, jax.Array], of_input: jax.Array
    ) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
        hidden, cell = states
        into, forget, new, out = jnp.split(of_input + hidden @ weight.T, 4)
        cell = jax.nn.sigmoid(forget) * cell + jax.nn.sigmoid(into) * jnp.tanh(new)
        hidden = jax.nn.sigmoid(out) * jnp.tanh(cell)
        return (hidden, cell), hidden

    start = jnp.zeros(weight.shape[1])
    return jax.lax.scan(step, (start, start), vectors @ weight_in.T + bias)[1]


if __name__ == "__main__":
    given = argument_parser(__doc__).parse_args()
    problem = Problem(given.problem)
    if problem.array("spellings").size:
        raise SystemExit(f"{given.problem}: words are read by characters, which this program does not do")
    sentences = list(map(Sentence, problem.ragged("words"), problem.ragged("labels")))
    time_training(loss, pad, sentences, given)
