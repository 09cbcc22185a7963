"""A batch of known trajectories, the input of replay.

Its vector table contains the words of all sentences, ROOT, the end of the buffer and, with composition, the
composed vectors, level by level."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from parser.batching.device import all_to_device
from parser.batching.forest_lstm import Forest
from parser.batching.ragged import Padding
from parser.transitions.state import front_positions
from parser.treebank.tokens import Tokens


@dataclass(frozen=True)
class SoftTargets:
    """The choices of another parser, the teacher (Hinton et al. 2015): in each row, the k transitions or
    heads of a word that the teacher finds most probable."""

    choices: Tensor
    """[rows, k]"""
    weights: Tensor
    """[rows, k] Their weights in the loss of the row. The rest up to 1 is the weight of the gold tree."""

    @classmethod
    def of(cls, probabilities: Tensor, k: int, weight: float) -> SoftTargets:
        """Soft targets from probabilities [rows, choices] of the teacher. weight: their part in the loss."""
        highest, choices = probabilities.topk(min(k, probabilities.shape[1]), dim=1)  # [rows, k]
        # Impossible choices have a score of -inf, which gives NaN when multiplied by 0.
        return cls(torch.where(highest > 0, choices, choices[:, :1]), weight * highest)

    @classmethod
    def unpack(cls, packed: Tensor) -> SoftTargets:
        """The inverse of `packed`."""
        choices, weights = packed.unbind(1)
        return cls(choices.long(), weights)

    def packed(self) -> Tensor:
        """[rows, 2, k] The targets in one tensor of floats."""
        return torch.stack([self.choices.to(self.weights.dtype), self.weights], dim=1)

    def map(self, function: Callable[[Tensor], Tensor]) -> SoftTargets:
        """With a function applied to all tensors that a device needs."""
        return SoftTargets(function(self.choices), function(self.weights))

    def mixed(self, of_gold: Tensor, scores: Tensor, normaliser: Tensor) -> Tensor:
        """[rows] The weighted sums of the losses of the gold tree [rows] and the teacher's cross entropy.

        scores: [rows, choices]; normaliser: [rows] their log-sum-exp.
        """
        of_teacher = normaliser[:, None] - scores.gather(1, self.choices)  # [rows, k]
        return (1 - self.weights.sum(1)) * of_gold + (self.weights * of_teacher).sum(1)


Part = TypeVar("Part", "Batch", "Compositions")


@dataclass(frozen=True)
class Compositions:
    """The A composed vectors of a batch, in execution order, level by level.

    In the vector table they follow the words, ROOT and the end of the buffer.
    """

    pairs: Tensor
    """[A, 2] Table rows of the vectors of head and dependent."""
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
    composed vectors. Tensors [S] contain the transitions of all sentences, one sentence after the other.
    """

    tokens: Tokens
    heads: Tensor
    """[W] The gold head of each word, as its number in its sentence; 0 for ROOT, NO_HEAD if unknown."""
    labels: Tensor
    """[W] The label of each gold arc; 0 for unknown ones."""
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
    """For the transitions [S]; None without a teacher."""
    soft_heads: SoftTargets | None = None
    """For the heads [W], numbered as in `heads`; None without a teacher that scores heads."""

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
    """Apply a function to all tensors, including those of nested objects."""
    mapped: dict[str, Any] = {}
    for name in (field.name for field in fields(part)):
        value = getattr(part, name)
        if isinstance(value, Tensor):
            mapped[name] = function(value)
        elif isinstance(value, tuple):
            mapped[name] = tuple(function(v) if isinstance(v, Tensor) else v for v in value)
        else:
            mapped[name] = None if value is None else value.map(function)
    return replace(part, **mapped)


def front_rows(tokens: Tokens) -> Tensor:
    """[words + sentences] Table rows of all possible buffer fronts, in the order of `front_positions`."""
    sentence, position = front_positions(tokens.lengths)
    is_word = position < tokens.lengths[sentence]
    return torch.where(is_word, tokens.numbers.offsets[sentence] + position, tokens.words + 1)


def buffer_rows(lengths: Tensor, padding: Padding, words: int) -> tuple[Tensor, ...]:
    """The table rows that buffers read, for each group of sentences [longest + 1, sentences].

    Each column starts with the end of the buffer, followed by the words from last to first; shorter sentences
    are padded with the end. lengths: [batch]; padding: that of sequences that are one longer. words: in the
    table, before ROOT.
    """
    groups = zip(
        padding.shapes, lengths.split(padding.size), lengths.cumsum(0).split(padding.size), strict=True
    )
    return tuple(
        _group_rows(frames, its_lengths, ends, words + 1) for (frames, _), its_lengths, ends in groups
    )


def _group_rows(frames: int, lengths: Tensor, ends: Tensor, end_row: int) -> Tensor:
    """[frames, sentences] The rows of one group.

    ends: [sentences] the row after the last word. end_row: the row of the end of the buffer.
    """
    frame = torch.arange(frames, device=lengths.device)[:, None]
    is_word = (frame > 0) & (frame <= lengths)
    return torch.where(is_word, ends - frame, end_row)
