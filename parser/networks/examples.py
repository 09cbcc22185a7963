"""Sentences with known trajectories, ready to be put into batches for replay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from parser.batching.forest import Forest, StackForest
from parser.batching.padding import Padding
from parser.batching.transfer import to_device
from parser.transitions.inventory import Inventory
from parser.transitions.oracle import oracle_trajectory
from parser.transitions.trajectory import Trajectory
from parser.treebank.ragged import Ragged
from parser.treebank.sentence import Sentence
from parser.treebank.vocabulary import Vocabulary

PREPARED_TOGETHER = 512


@dataclass(frozen=True)
class Batch:
    """A batch whose trajectories are known. W words, N stack nodes, S transitions in all; B sentences.

    Rows of the token table are the words, then ROOT (W), then the buffer's end (W + 1).
    """

    tokens: Tensor
    """[W, columns]"""
    buffer_tokens: tuple[Tensor, ...]
    """For each group [longest + 1, sentences] Rows of the token table, from the buffer's end to the first
    word."""
    history: tuple[Tensor, ...]
    """For each group [most steps, sentences] The transition before each step: `wait` before the first and
    after the end."""
    forest: Forest
    """Of the rows that the stacks store."""
    node_tokens: Tensor
    """[N] Row of the token table that each node holds, in running order."""
    transitions: Tensor
    """[S] The transitions taken, sentence after sentence; so for the rest."""
    legal: Tensor
    """[S, kinds]"""
    step: Tensor
    """[S] Row of (step, sentence) in `history`, laid out flat."""
    top_node: Tensor
    """[S] Position in running order of the node on top before the step."""
    top_token: Tensor
    """[S] Row of the token table of the word on top after the step."""
    buffer_row: Tensor
    """[S] Row of (frame, sentence) in `buffer_tokens`, laid out flat, that shows before the step."""

    @property
    def sentences(self) -> int:
        return sum(group.shape[1] for group in self.history)

    def to(self, device: torch.device) -> Batch:
        moved: dict[str, Any] = {}
        for name in (field.name for field in fields(self)):
            value = getattr(self, name)
            if isinstance(value, tuple):
                moved[name] = tuple(to_device(block, device) for block in value)
            else:
                moved[name] = value.to(device) if name == "forest" else to_device(value, device)
        return replace(self, **moved)


@dataclass(frozen=True)
class Examples:
    """All sentences of a treebank, in flat tensors."""

    inventory: Inventory
    tokens: Ragged
    """[words, columns]"""
    steps: Ragged
    """[transitions, 4]: the transition; before it B0 and the node on top; after it the word on top."""
    legal: Ragged
    """[transitions, kinds] bool"""
    nodes: Ragged
    """[nodes, 3]: parent (-1 for none), depth and word of every row that the stack stores."""

    @classmethod
    def of(cls, inventory: Inventory, vocabulary: Vocabulary, sentences: Sequence[Sentence]) -> Examples:
        """Sentences with projective trees. Raises ValueError for others."""
        return cls.prepare(
            inventory,
            vocabulary.encode_tokens(sentences),
            vocabulary.encode_heads(sentences),
            vocabulary.encode_labels(sentences),
        )

    @classmethod
    def prepare(cls, inventory: Inventory, tokens: Ragged, heads: Ragged, labels: Ragged) -> Examples:
        """Ask the oracle for the trajectories of projective trees. Raises ValueError for others."""
        if not len(heads):
            nothing = Ragged(torch.zeros(0, 4, dtype=torch.long), heads.lengths)
            return cls(inventory, tokens, nothing, nothing, nothing)
        by_length = heads.lengths.argsort()
        steps, legal, nodes = [], [], []
        for rows in by_length.split(PREPARED_TOGETHER):
            trajectory = oracle_trajectory(inventory, heads.select(rows), labels.select(rows))
            taken, allowed, stored = _flatten(trajectory, inventory)
            steps += taken.unflatten()
            legal += allowed.unflatten()
            nodes += stored.unflatten()
        place = by_length.argsort()
        return cls(inventory, tokens, *(Ragged.of(parts).select(place) for parts in (steps, legal, nodes)))

    def __len__(self) -> int:
        return len(self.tokens)

    def batch(self, rows: Tensor, group: int | None = None) -> Batch:
        """The sentences `rows` [batch]; group: so many of them are padded together, those of like length."""
        if group:
            rows = rows[self.tokens.lengths[rows].argsort(descending=True)]
        tokens, steps, nodes = (part.select(rows) for part in (self.tokens, self.steps, self.nodes))
        words = len(tokens.values)
        transition, front, top_node, top_word = steps.values.unbind(1)
        parent, depth, node_word = nodes.values.unbind(1)
        sentence_of_step = steps.row_of_element()
        first_node = nodes.offsets
        forest = Forest.of(torch.where(parent >= 0, parent + first_node[nodes.row_of_element()], -1), depth)

        def token_row(word: Tensor, sentence: Tensor) -> Tensor:
            return torch.where(word > 0, tokens.offsets[sentence] + word - 1, words)

        step, sentence_of_word = steps.place_in_row(), tokens.row_of_element()
        goes_on = step + 1 < steps.lengths[sentence_of_step]
        buffers, histories = Padding.of(tokens.lengths + 1, group), Padding.of(steps.lengths, group)
        return Batch(
            tokens=tokens.values,
            buffer_tokens=buffers.spread(
                frame=tokens.lengths[sentence_of_word] - tokens.place_in_row(),
                sequence=sentence_of_word,
                values=torch.arange(words),
                fill=words + 1,
            ),
            history=histories.spread(
                frame=step[goes_on] + 1,
                sequence=sentence_of_step[goes_on],
                values=transition[goes_on],
                fill=self.inventory.wait,
            ),
            forest=forest,
            node_tokens=token_row(node_word, nodes.row_of_element())[forest.order],
            transitions=transition,
            legal=self.legal.select(rows).values,
            step=histories.row(step, sentence_of_step),
            top_node=forest.position[top_node + first_node[sentence_of_step]],
            top_token=token_row(top_word, sentence_of_step),
            buffer_row=buffers.row(tokens.lengths[sentence_of_step] + 1 - front, sentence_of_step),
        )


def buffer_tokens(lengths: Tensor) -> Tensor:
    """[longest + 1, batch] Rows of the token table in the order of the buffers: the end, the last word, ...

    lengths: [batch]. A shorter sentence goes on with ends, which nobody reads.
    """
    frame = torch.arange(int(lengths.max()) + 1, device=lengths.device)[:, None]
    exists = (frame > 0) & (frame <= lengths)
    return torch.where(exists, lengths.cumsum(0) - frame, lengths.sum() + 1)


def _flatten(trajectory: Trajectory, inventory: Inventory) -> tuple[Ragged, Ragged, Ragged]:
    """The steps, what was legal and the stack nodes of a padded trajectory, nodes numbered by sentence."""
    taken = trajectory.transitions != inventory.wait  # [batch, steps]
    forest = StackForest.of(trajectory.stack_read, trajectory.stack_move)
    number = forest.is_node.cumsum(1) - 1  # [batch, steps + 1]
    top_node = number.gather(1, forest.top)[:, :-1]
    parent = number.gather(1, forest.parent.clamp(min=0)).where(forest.parent >= 0, -1)
    root = torch.zeros_like(trajectory.top[:, :1])
    word = torch.cat([root, trajectory.top], dim=1)
    steps = torch.stack([trajectory.transitions, trajectory.front, top_node, trajectory.top], dim=2)
    nodes = torch.stack([parent, forest.depth, word], dim=2)
    step_counts = taken.sum(1)
    return (
        Ragged(steps[taken], step_counts),
        Ragged(trajectory.legal[taken], step_counts),
        Ragged(nodes[forest.is_node], forest.is_node.sum(1)),
    )
