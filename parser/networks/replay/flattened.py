"""Padded trajectories as flat rows, sentence by sentence, from which batches are made.

In a sentence of n words, vector 0 is that of ROOT, 1 to n are the words, and n + 1 is the end of the buffer.
Composed vectors follow in the order of the steps that compose them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from parser.batching.forest import StackForest
from parser.batching.levels import heights
from parser.batching.ragged import Ragged
from parser.networks.replay.execution_order import ranks_and_counts
from parser.transitions.inventory import Inventory
from parser.transitions.system import Place
from parser.transitions.trajectory import Trajectory


class FlatTrajectories(NamedTuple):
    """The trajectories of sentences. Nodes, steps and vectors are numbered within each sentence.

    Nodes have the columns class and rank, see `execution_order`, then the node below and the vector from
    which they are computed. The last four are None for parsers without composition.
    """

    steps: Ragged
    """[transitions, 8] The transition; before it, B0, the node on top of the stack, and the vectors of S0, S1
    (or ROOT) and B0; after it, the vector on top of the stack; before it, the buffer node of B0."""
    legal: Ragged
    """[transitions, kinds] bool: which kinds of transitions were legal."""
    optimal_labels: Ragged
    """[transitions, kinds] The label with which each kind was optimal; NOT_OPTIMAL for the others."""
    stack_nodes: Ragged
    """[nodes, 4] The nodes of the stack forest."""
    stack_counts: Ragged
    """[classes] The number of stack nodes of each class."""
    buffer_nodes: Ragged | None = None
    """[nodes, 4] The nodes of the buffer forest: for each word, for the end, and for each composed vector
    that replaces B0."""
    buffer_counts: Ragged | None = None
    """[classes] The number of buffer nodes of each class."""
    composed: Ragged | None = None
    """[vectors, 5] For each composed vector: its class, which is its level, its rank, the vectors of head and
    dependent, and the transition."""
    composed_counts: Ragged | None = None
    """[classes] The number of composed vectors of each level."""

    @classmethod
    def none(cls, inventory: Inventory) -> FlatTrajectories:
        """The trajectories of no sentences."""
        nothing = torch.zeros(0, dtype=torch.long)
        parts = len(cls._fields) if inventory.system.composes else len(cls._fields) - len(cls._field_defaults)
        return cls(*[Ragged(nothing[:, None], nothing)] * parts)

    @classmethod
    def join(cls, parts: Sequence[FlatTrajectories]) -> FlatTrajectories:
        """The trajectories of the sentences of all parts."""
        found: dict[str, Any] = {
            name: None if own[0] is None else Ragged.join(own)
            for name, *own in zip(cls._fields, *parts, strict=True)
        }
        return cls(**found)

    def select(self, rows: Tensor) -> FlatTrajectories:
        """The trajectories of the given sentences [selected], in this order."""
        return self.map(lambda ragged: ragged.select(rows))

    def map(self, function: Callable[[Ragged], Ragged]) -> FlatTrajectories:
        """With a function applied to all parts that are there."""
        found: dict[str, Any] = {
            name: None if own is None else function(own) for name, own in self._asdict().items()
        }
        return FlatTrajectories(**found)

    @classmethod
    def of(cls, inventory: Inventory, trajectory: Trajectory, lengths: Tensor) -> FlatTrajectories:
        """Flatten trajectories. lengths: [batch] in words."""
        taken = trajectory.transitions != inventory.no_op  # [batch, steps]
        forest = StackForest.of(trajectory.stack_read, trajectory.stack_move)
        number = forest.is_node.cumsum(1) - 1  # [batch, steps + 1]
        vectors = number_vectors(inventory, trajectory, forest, lengths)
        top = forest.top[:, :-1]
        below = forest.parent.gather(1, top).clamp(min=0)
        columns = [
            trajectory.transitions,
            trajectory.front,
            number.gather(1, top),
            vectors.of_node.gather(1, top),
            vectors.of_node.gather(1, below),
            vectors.front,
            vectors.of_node[:, 1:],
            vectors.buffer_node,
        ]
        step_counts = taken.sum(1)
        parent = number.gather(1, forest.parent.clamp(min=0)).where(forest.parent >= 0, -1)
        nodes = [values[forest.is_node] for values in (parent, forest.depth, vectors.of_node)]
        found = (
            Ragged(torch.stack(columns, dim=2)[taken], step_counts),
            Ragged(trajectory.legal[taken], step_counts),
            Ragged(trajectory.optimal_labels[taken], step_counts),
            *_forest(nodes, forest.is_node.sum(1)),
        )
        if not inventory.system.composes:
            return cls(*found)
        composed = _composed(inventory, trajectory, vectors, lengths)
        of_buffer = _buffer_forest(inventory, trajectory, vectors, lengths)
        return cls(*found, *of_buffer, *composed)


@dataclass(frozen=True)
class VectorNumbers:
    """The numbers of the vectors that each step uses."""

    of_node: Tensor
    """[batch, steps + 1] The vector from which each node of the stack forest was computed."""
    front: Tensor
    """[batch, steps] The vector of B0 before each step."""
    buffer_node: Tensor
    """[batch, steps] The node of B0 before each step in the buffer forest: word w, or the end of the buffer,
    is node w - 1; composed vectors that replace B0 follow in the order of their steps."""
    composes: Tensor
    """[batch, steps] bool: whether the step composes a vector."""
    head: Tensor
    """[batch, steps] The vector of the head from which the vector is composed."""
    dependent: Tensor
    """[batch, steps] The vector of the dependent from which the vector is composed."""


def number_vectors(
    inventory: Inventory, trajectory: Trajectory, forest: StackForest, lengths: Tensor
) -> VectorNumbers:
    """Number the vectors of a trajectory. forest: its stack forest. lengths: [batch] in words."""
    effects = inventory.effects(trajectory.transitions)  # [batch, steps] each
    if not inventory.system.composes:
        return _own_vectors(trajectory)
    place = effects.composes
    composes = place != Place.NOWHERE
    composed = lengths[:, None] + 1 + composes.cumsum(1)
    replacing = lengths[:, None] + (place == Place.B0).cumsum(1)  # nodes of vectors that replace B0
    of_node = torch.zeros_like(forest.top)
    front, buffer_node = torch.ones_like(lengths), torch.zeros_like(lengths)
    fronts, buffer_nodes, heads, dependents = [], [], [], []
    for step in range(place.shape[1]):
        top = forest.top[:, step, None]
        below = forest.parent.gather(1, top).clamp(min=0)
        # [places, batch] in the order of `Place`. Before its arc, the composed vector is at no place.
        found = torch.stack(
            [of_node.gather(1, top)[:, 0], of_node.gather(1, below)[:, 0], front, composed[:, step]]
        )

        def at(places: Tensor, found: Tensor = found) -> Tensor:
            return found.gather(0, places[None])[0]

        fronts.append(front)
        buffer_nodes.append(buffer_node)
        heads.append(at(effects.head[:, step]))
        dependents.append(at(effects.dependent[:, step]))
        on_stack, in_buffer = place[:, step] == Place.S0, place[:, step] == Place.B0
        of_node[:, step + 1] = torch.where(on_stack, composed[:, step], at(effects.top[:, step]))
        front = torch.where(in_buffer, composed[:, step], front)
        buffer_node = torch.where(in_buffer, replacing[:, step], buffer_node)
        leaves, word = effects.buffer_move[:, step] == 1, trajectory.front[:, step]
        front = torch.where(leaves, word + 1, front)
        buffer_node = torch.where(leaves, word, buffer_node)
    return VectorNumbers(
        of_node=of_node,
        front=torch.stack(fronts, dim=1),
        buffer_node=torch.stack(buffer_nodes, dim=1),
        composes=composes,
        head=torch.stack(heads, dim=1),
        dependent=torch.stack(dependents, dim=1),
    )


def _own_vectors(trajectory: Trajectory) -> VectorNumbers:
    """The numbers without composition: the vector of each word is always that of the word itself."""
    nothing = torch.zeros_like(trajectory.top)
    root = torch.zeros_like(trajectory.top[:, :1])
    return VectorNumbers(
        of_node=torch.cat([root, trajectory.top], dim=1),
        front=trajectory.front,
        buffer_node=trajectory.front - 1,
        composes=nothing.bool(),
        head=nothing,
        dependent=nothing,
    )


def _forest(nodes: Sequence[Tensor], lengths: Tensor) -> tuple[Ragged, Ragged]:
    """The nodes of forests, and the number of nodes of each class.

    nodes: [nodes] the parent, -1 for roots, the depth and the vector of each, sentence by sentence. lengths:
    [sentences], in nodes.
    """
    parent, depth, vector = nodes
    first = (lengths.cumsum(0) - lengths).repeat_interleave(lengths)
    has_child = torch.zeros_like(parent, dtype=torch.bool)
    has_child[(first + parent)[parent >= 0]] = True
    node_class = 2 * depth + (~has_child).long()
    rank, counts = ranks_and_counts(node_class, lengths)
    return Ragged(torch.stack([node_class, rank, parent, vector], dim=1), lengths), counts


def _buffer_forest(
    inventory: Inventory, trajectory: Trajectory, vectors: VectorNumbers, lengths: Tensor
) -> tuple[Ragged, Ragged]:
    """`FlatTrajectories.buffer_nodes` and `buffer_counts`."""
    batch, longest = len(lengths), int(lengths.max())
    of_step = inventory.effects(trajectory.transitions).composes  # [batch, steps]
    replaces = of_step == Place.B0
    word = torch.arange(longest + 1).expand(batch, -1)
    exists = torch.cat([word <= lengths[:, None], replaces], dim=1)  # [batch, longest + 1 + steps]
    # A composed vector is read after the same words as the vector of B0, which it replaces.
    front = torch.cat([word, trajectory.front - 1], dim=1)
    depth = lengths[:, None] - front
    composed = lengths[:, None] + 1 + (of_step != Place.NOWHERE).cumsum(1)
    vector = torch.cat([word + 1, composed], dim=1)
    parent = (front + 1).where(depth > 0, -1)
    return _forest([values[exists] for values in (parent, depth, vector)], exists.sum(1))


def _composed(
    inventory: Inventory, trajectory: Trajectory, vectors: VectorNumbers, lengths: Tensor
) -> tuple[Ragged, Ragged]:
    """`FlatTrajectories.composed` and `composed_counts`."""
    which = vectors.composes & (trajectory.transitions != inventory.no_op)
    counts = which.sum(1)
    sentence = torch.arange(len(lengths)).repeat_interleave(counts)
    first = (counts.cumsum(0) - counts - lengths - 2)[sentence]
    own_number = torch.arange(len(sentence))
    pair = vectors.head[which], vectors.dependent[which]
    edges = []
    for vector in pair:
        is_composed = vector > lengths[sentence] + 1
        edges.append(torch.stack([(first + vector)[is_composed], own_number[is_composed]]))
    used, users = torch.cat(edges, dim=1).numpy()
    level = torch.from_numpy(heights(len(own_number), used, users))
    rank, of_levels = ranks_and_counts(level, counts)
    columns = [level, rank, *pair, trajectory.transitions[which]]
    return Ragged(torch.stack(columns, dim=1), counts), of_levels
