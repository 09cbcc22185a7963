"""A batch of known trajectories, the input of replay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from parser.batching.forest import Forest
from parser.batching.transfer import all_to_device
from parser.replay.soft_targets import SoftTargets
from parser.treebank.tokens import Tokens

Part = TypeVar("Part", "Batch", "Compositions")


@dataclass(frozen=True)
class Compositions:
    """The A composed vectors of a batch, in execution order, level by level.

    In the vector table they follow the words, ROOT and the end of the buffer.
    """

    pairs: Tensor
    """[A, 2] Table rows of the vectors of the head and of the dependent."""
    transition: Tensor
    """[A] The labelled transition that composes the vector."""
    levels: tuple[slice, ...]
    """The vectors of each level. A vector depends only on vectors of earlier levels."""
    buffer: Forest
    """The states of the buffer LSTM: for each word, and for each composed vector that replaces a word."""
    buffer_vectors: Tensor
    """[nodes] Table row of the input of each node of `buffer`, in execution order."""

    def map(self, function: Callable[[Tensor], Tensor]) -> Compositions:
        """With a function applied to all tensors that a device needs."""
        return _mapped(self, function)


@dataclass(frozen=True)
class Batch:
    """Known trajectories of B sentences, with W words, N stack nodes and S transitions in total.

    The rows of the vector table are the W words, ROOT (row W), the end of the buffer (row W + 1) and the
    composed vectors. Tensors [S] have the transitions of all sentences, one sentence after the other.
    """

    tokens: Tokens
    buffer_tokens: tuple[Tensor, ...]
    """For each group of sentences [longest + 1, sentences] Table rows from the end of the buffer to the first
    word. Empty with composition; see `Compositions.buffer`."""
    history: tuple[Tensor, ...]
    """For each group of sentences [most steps, sentences] The previous transition at each step: `no_op` at
    the first step and after the end."""
    forest: Forest
    """The states of the StackLSTM."""
    node_vectors: Tensor
    """[N] Table row of the input of each stack node, in execution order."""
    transitions: Tensor
    """[S] The transition taken at each step."""
    legal: Tensor
    """[S, kinds] bool: which kinds of transitions were legal."""
    optimal_labels: Tensor
    """[S, kinds] The label with which each kind was optimal; NOT_OPTIMAL for the others."""
    step: Tensor
    """[S] Index of each step in the flattened `history`."""
    top_node: Tensor
    """[S] The node on top of the stack before the step, by its position in execution order."""
    top_vector: Tensor
    """[S] Table row of the vector on top of the stack after the step."""
    word_features: Tensor
    """[S, 3] Table rows of the vectors of S0, S1 (or ROOT) and B0 before the step."""
    front: Tensor
    """[S] B0 before the step, as a word number in its sentence."""
    buffer_row: Tensor
    """[S] The buffer state before the step: index in the flattened `buffer_tokens` or, with composition,
    position in execution order of `Compositions.buffer`."""
    compositions: Compositions | None
    """None for parsers without composition."""
    soft_targets: SoftTargets | None = None
    """None without a teacher."""

    @property
    def sentences(self) -> int:
        return len(self.tokens)

    def by_step(self, values: Tensor, fill: int) -> Tensor:
        """[steps, B] Arrange values [S] by step and sentence; `fill` after the end of a sentence."""
        [history] = self.history  # stepping runs all sentences as one group
        padded = torch.full_like(history, fill)
        padded.view(-1)[self.step] = values
        return padded

    def to(self, device: torch.device) -> Batch:
        return all_to_device(self, device)

    def map(self, function: Callable[[Tensor], Tensor]) -> Batch:
        """With a function applied to all tensors that a device needs."""
        return _mapped(self, function)


def _mapped(part: Part, function: Callable[[Tensor], Tensor]) -> Part:
    """Apply a function to all tensors, also those of nested objects."""
    found: dict[str, Any] = {}
    for name in (field.name for field in fields(part)):
        value = getattr(part, name)
        if isinstance(value, Tensor):
            found[name] = function(value)
        elif isinstance(value, tuple):
            found[name] = tuple(function(v) if isinstance(v, Tensor) else v for v in value)
        else:
            found[name] = None if value is None else value.map(function)
    return replace(part, **found)
