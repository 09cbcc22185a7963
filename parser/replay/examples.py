"""Sentences with known trajectories, ready to be put into batches for replay."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from tqdm import tqdm

from parser.batching.forest import Forest, StackForest
from parser.batching.levels import heights
from parser.batching.padding import Padding
from parser.console import PROGRESS_BAR
from parser.replay.batch import Batch
from parser.replay.vector_rows import VectorRows
from parser.transitions.inventory import Inventory
from parser.transitions.oracle import oracle_trajectory
from parser.transitions.system import Place
from parser.transitions.trajectory import Trajectory
from parser.transitions.vector_numbers import VectorNumbers, number_vectors
from parser.treebank.batches import split_by_words
from parser.treebank.ragged import Ragged
from parser.treebank.sentence import Sentence
from parser.treebank.tokens import Tokens
from parser.treebank.vocabulary import Vocabulary

MAX_GROUP_SENTENCES = 512
MAX_GROUP_WORDS = 100_000
"""Padding included: so a long sentence does not fill the memory with the padding of others."""


@dataclass(frozen=True)
class Examples:
    """Sentences in flat tensors. VectorNumbers are numbered by sentence, as in `transitions.vectors`."""

    inventory: Inventory
    tokens: Tokens
    gold: Ragged
    """[words, 2]: the head, 0 for ROOT, and the label of each word."""
    steps: Ragged
    """[transitions, 5]: the transition; before it B0, its vector and the node on top; after it the vector on
    top."""
    legal: Ragged
    """[transitions, kinds] bool"""
    optimal_labels: Ragged
    """[transitions, kinds] The label with which each would be right, or NOT_OPTIMAL."""
    nodes: Ragged
    """[nodes, 3]: parent (-1 for none), depth and vector of every row that the stack stores."""
    composed: Ragged
    """[vectors, 5]: the vectors of head and dependent, the transition, the level; the word at the buffer's
    front if that is what it replaces, else 0."""

    @classmethod
    def of(cls, inventory: Inventory, vocabulary: Vocabulary, sentences: Sequence[Sentence]) -> Examples:
        """Sentences with projective trees. Raises ValueError for others."""
        heads, labels = vocabulary.encode_heads(sentences), vocabulary.encode_labels(sentences)
        return cls.prepare(inventory, vocabulary.encode_tokens(sentences), heads, labels)

    @classmethod
    def prepare(cls, inventory: Inventory, tokens: Tokens, heads: Ragged, labels: Ragged) -> Examples:
        """Ask the oracle for the trajectories of projective trees. Raises ValueError for others."""
        gold = Ragged(torch.stack([heads.values, labels.values], dim=1), heads.lengths)
        if not len(heads):
            nothing = Ragged(torch.zeros(0, 5, dtype=torch.long), heads.lengths)
            return cls(inventory, tokens, gold, *[nothing] * 5)
        by_length = heads.lengths.argsort()
        found = []
        with tqdm(total=len(heads.values), desc="trajectories", unit="word", **PROGRESS_BAR) as bar:
            for rows in _cut(by_length, heads.lengths):
                trajectory = oracle_trajectory(inventory, heads.select(rows), labels.select(rows))
                found.append(_flatten(inventory, trajectory, heads.lengths[rows]))
                bar.update(int(heads.lengths[rows].sum()))
        place = by_length.argsort()
        joined = (Ragged.join(parts).select(place) for parts in zip(*found, strict=True))
        return cls(inventory, tokens, gold, *joined)

    @classmethod
    def of_trajectory(
        cls, inventory: Inventory, tokens: Tokens, gold: Ragged, trajectory: Trajectory
    ) -> Examples:
        """The sentences with trajectories that somebody else chose."""
        return cls(inventory, tokens, gold, *_flatten(inventory, trajectory, tokens.lengths))

    def __len__(self) -> int:
        return len(self.tokens)

    def batch(self, rows: Tensor, group: int | None = None) -> Batch:
        """The sentences `rows` [batch]; group: so many of them are padded together, those of like length."""
        if group:
            rows = rows[self.tokens.lengths[rows].argsort(descending=True, stable=True)]
        tokens, steps, nodes = self.tokens.select(rows), self.steps.select(rows), self.nodes.select(rows)
        lengths = tokens.lengths
        transition, front, front_vector, top_node, top_vector = steps.values.unbind(1)
        parent, depth, node_vector = nodes.values.unbind(1)
        sentence, sentence_of_node = steps.row_of_element(), nodes.row_of_element()
        forest = Forest.of(torch.where(parent >= 0, parent + nodes.offsets[sentence_of_node], -1), depth)
        table = VectorRows(tokens, self.composed.select(rows))
        top = top_node + nodes.offsets[sentence]
        below = parent[top].clamp(min=0) + nodes.offsets[sentence]
        seen = torch.stack([node_vector[top], node_vector[below], front_vector, top_vector])  # [4, S]
        *shown, top_vector_row = table.row(seen, sentence)
        step = steps.position_in_row()
        goes_on = step + 1 < steps.lengths[sentence]
        histories = Padding.of(steps.lengths, group)
        buffer_tokens: tuple[Tensor, ...] = ()
        compositions = None
        if self.inventory.system.composes:
            compositions = table.compositions()
            buffer_row = compositions.buffer.position[table.buffer_node(front, front_vector, sentence)]
        else:
            buffers = Padding.of(lengths + 1, group)
            buffer_tokens = _buffer_tokens(tokens, buffers)
            buffer_row = buffers.row(lengths[sentence] + 1 - front, sentence)
        return Batch(
            tokens=tokens,
            buffer_tokens=buffer_tokens,
            history=histories.spread(
                frame=step[goes_on] + 1,
                sequence=sentence[goes_on],
                values=transition[goes_on],
                fill=self.inventory.no_op,
            ),
            forest=forest,
            node_vectors=table.row(node_vector, sentence_of_node)[forest.order],
            transitions=transition,
            legal=self.legal.select(rows).values,
            optimal_labels=self.optimal_labels.select(rows).values,
            step=histories.row(step, sentence),
            top_node=forest.position[top],
            top_vector=top_vector_row,
            word_features=torch.stack(shown, dim=1),
            front=front,
            buffer_row=buffer_row,
            compositions=compositions,
        )


def _cut(order: Tensor, lengths: Tensor) -> Iterator[Tensor]:
    """The sentences [sentences] in this order, some at a time; lengths: of all of them."""
    for rows in order.split(MAX_GROUP_SENTENCES):
        yield from split_by_words(rows, lengths[rows].tolist(), MAX_GROUP_WORDS)


def _buffer_tokens(tokens: Tokens, buffers: Padding) -> tuple[Tensor, ...]:
    """As `Batch.buffer_tokens`."""
    sentence = tokens.numbers.row_of_element()
    return buffers.spread(
        frame=tokens.lengths[sentence] - tokens.numbers.position_in_row(),
        sequence=sentence,
        values=torch.arange(tokens.words),
        fill=tokens.words + 1,
    )


def _flatten(inventory: Inventory, trajectory: Trajectory, lengths: Tensor) -> tuple[Ragged, ...]:
    """Steps, legal and right ones, stack nodes and compositions of padded trajectories; nodes by sentence."""
    taken = trajectory.transitions != inventory.no_op  # [batch, steps]
    forest = StackForest.of(trajectory.stack_read, trajectory.stack_move)
    number = forest.is_node.cumsum(1) - 1  # [batch, steps + 1]
    top_node = number.gather(1, forest.top)[:, :-1]
    parent = number.gather(1, forest.parent.clamp(min=0)).where(forest.parent >= 0, -1)
    named = number_vectors(inventory, trajectory, forest, lengths)
    top_vector = named.of_node[:, 1:]
    steps = [trajectory.transitions, trajectory.front, named.front, top_node, top_vector]
    nodes = torch.stack([parent, forest.depth, named.of_node], dim=2)
    step_counts = taken.sum(1)
    return (
        Ragged(torch.stack(steps, dim=2)[taken], step_counts),
        Ragged(trajectory.legal[taken], step_counts),
        Ragged(trajectory.optimal_labels[taken], step_counts),
        Ragged(nodes[forest.is_node], forest.is_node.sum(1)),
        _composed(inventory, trajectory, named, lengths),
    )


def _composed(inventory: Inventory, trajectory: Trajectory, named: VectorNumbers, lengths: Tensor) -> Ragged:
    """[vectors, 5] As `Examples.composed`."""
    which = named.composes & (trajectory.transitions != inventory.no_op)
    counts = which.sum(1)
    sentence = torch.arange(len(lengths)).repeat_interleave(counts)
    first = (counts.cumsum(0) - counts - lengths - 2)[sentence]
    user = torch.arange(len(sentence))
    edges = []
    for vector in (named.head[which], named.dependent[which]):
        is_composed = vector > lengths[sentence] + 1
        edges.append(torch.stack([(first + vector)[is_composed], user[is_composed]]))
    used, users = torch.cat(edges, dim=1).numpy()
    level = torch.from_numpy(heights(len(user), used, users))
    into_buffer = inventory.composes[inventory.kind[trajectory.transitions[which]]] == Place.B0
    replaced = torch.where(into_buffer, trajectory.front[which], 0)
    columns = [named.head[which], named.dependent[which], trajectory.transitions[which], level, replaced]
    return Ragged(torch.stack(columns, dim=1), counts)
