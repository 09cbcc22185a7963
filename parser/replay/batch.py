"""A batch of known trajectories, ready to be replayed."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from parser.batching.forest import Forest
from parser.batching.transfer import to_device
from parser.treebank.tokens import Tokens

Part = TypeVar("Part", "Batch", "Compositions")


@dataclass(frozen=True)
class Compositions:
    """What a batch composes: A vectors in the order in which they run, level by level.

    In the table of vectors they follow the batch's words, ROOT and the buffer's end.
    """

    head: Tensor
    """[A] Row of the table that each is composed of; so for the dependent."""
    dependent: Tensor
    transition: Tensor
    """[A] The labelled transition that composes."""
    levels: tuple[slice, ...]
    """Of 0 to A; none is composed of others of its level."""
    buffer: Forest
    """Of the rows that the buffers store: all words, and beside these what replaces them."""
    buffer_vectors: Tensor
    """[nodes] Row of the table that each of them holds, in running order."""

    def to(self, device: torch.device) -> Compositions:
        return _moved(self, device)


@dataclass(frozen=True)
class Batch:
    """A batch whose trajectories are known. W words, N stack nodes, S transitions in all; B sentences.

    Rows of the table of vectors are the words, then ROOT (W), the buffer's end (W + 1) and what is composed.
    """

    tokens: Tokens
    buffer_tokens: tuple[Tensor, ...]
    """For each group [longest + 1, sentences] Rows of the table, from the buffer's end to the first word; no
    group if there are compositions, which have a buffer of their own."""
    history: tuple[Tensor, ...]
    """For each group [most steps, sentences] The transition before each step: `wait` before the first and
    after the end."""
    forest: Forest
    """Of the rows that the stacks store."""
    node_vectors: Tensor
    """[N] Row of the table that each node holds, in running order."""
    transitions: Tensor
    """[S] The transitions taken, sentence after sentence; so for the rest."""
    legal: Tensor
    """[S, kinds] bool"""
    optimal_labels: Tensor
    """[S, kinds] The label with which a transition would have been right; NOT_OPTIMAL for the others."""
    step: Tensor
    """[S] Row of (step, sentence) in `history`, laid out flat."""
    top_node: Tensor
    """[S] Position in running order of the node on top before the step."""
    top_vector: Tensor
    """[S] Row of the table that is on top after the step."""
    word_features: Tensor
    """[S, 3] Rows of the table on top, below that (or ROOT) and at the buffer's front, before it."""
    front: Tensor
    """[S] The word at the buffer's front before the step, its number in its sentence."""
    buffer_row: Tensor
    """[S] What shows before the step: row of (frame, sentence) in `buffer_tokens`, laid out flat; with
    compositions, position in their buffer's running order."""
    compositions: Compositions | None

    @property
    def sentences(self) -> int:
        return len(self.tokens)

    def by_step(self, values: Tensor, fill: int) -> Tensor:
        """[steps, B] from one value for each transition [S]; `fill` where a sentence is finished."""
        [history] = self.history  # steps go through all sentences at once
        padded = torch.full_like(history, fill)
        padded.view(-1)[self.step] = values
        return padded

    def to(self, device: torch.device) -> Batch:
        return _moved(self, device)


def _moved(part: Part, device: torch.device) -> Part:
    """All its tensors, and what holds tensors, on the device."""
    found: dict[str, Any] = {}
    for name in (field.name for field in fields(part)):
        value = getattr(part, name)
        if isinstance(value, Tensor):
            found[name] = to_device(value, device)
        elif isinstance(value, tuple):
            found[name] = tuple(to_device(v, device) if isinstance(v, Tensor) else v for v in value)
        else:
            found[name] = None if value is None else value.to(device)
    return replace(part, **found)
