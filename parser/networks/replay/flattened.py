"""Padded trajectories as flat rows, sentence by sentence, from which batches are made.

In a sentence of n words, vector 0 is that of ROOT, 1 to n are the words, and n + 1 is the end of the buffer.
Composed vectors follow in the order of the steps that compose them.

The execution order of nodes in a batch of sentences is found by cumulative sums instead of sorting. Each node
has a class. Nodes run class by class, and within a class sentence by sentence. So a node's position is the
start of its class, plus the nodes of the class in earlier sentences, plus its rank: the nodes of the class
before it in its own sentence. The ranks, and the number of nodes of each class in a sentence, do not depend
on the other sentences of a batch, and are computed only once. In a forest, the class is twice the level, plus
1 for nodes without children. So the levels follow each other, and the nodes with children come first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from parser.batching.forest_lstm import StackForest
from parser.batching.levels import heights
from parser.batching.ragged import Ragged
from parser.transitions.inventory import Inventory
from parser.transitions.oracle import Trajectory
from parser.transitions.system import Place


class FlatTrajectories(NamedTuple):
    """The trajectories of sentences. Nodes, steps and vectors are numbered within each sentence.

    Nodes have the columns class and rank, then the node below and the vector from
    which they are computed. The last four are None for parsers without composition.
    """

    steps: Ragged
    """[steps, 8] The transition; before it, B0, the node on top of the stack, and the vectors of S0, S1
    (or ROOT) and B0; after it, the vector on top of the stack; before it, the buffer node of B0."""
    legal: Ragged
    """[steps, kinds] bool: which kinds of transitions were legal."""
    optimal_labels: Ragged
    """[steps, kinds] The label with which each kind was optimal; NOT_OPTIMAL for the others."""
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
        joined: dict[str, Any] = {
            name: None if of_parts[0] is None else Ragged.join(of_parts)
            for name, *of_parts in zip(cls._fields, *parts, strict=True)
        }
        return cls(**joined)

    def select(self, rows: Tensor) -> FlatTrajectories:
        """The trajectories of the given sentences [selected], in this order."""
        return self.map(lambda ragged: ragged.select(rows))

    def map(self, function: Callable[[Ragged], Ragged]) -> FlatTrajectories:
        """With a function applied to all parts that are there."""
        mapped: dict[str, Any] = {
            name: None if part is None else function(part) for name, part in self._asdict().items()
        }
        return FlatTrajectories(**mapped)

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
        without_composition = (
            Ragged(torch.stack(columns, dim=2)[taken], step_counts),
            Ragged(trajectory.legal[taken], step_counts),
            Ragged(trajectory.optimal_labels[taken], step_counts),
            *_forest(nodes, forest.is_node.sum(1)),
        )
        if not inventory.system.composes:
            return cls(*without_composition)
        composed = _composed(inventory, trajectory, vectors, lengths)
        of_buffer = _buffer_forest(inventory, trajectory, vectors, lengths)
        return cls(*without_composition, *of_buffer, *composed)


def ranks_and_counts(node_class: Tensor, lengths: Tensor) -> tuple[Tensor, Ragged]:
    """The rank [nodes] of each node, and for each sentence the number of nodes of each class.

    node_class: [nodes], sentence by sentence. lengths: [sentences], the number of nodes of each sentence.
    """
    sentence = torch.arange(len(lengths)).repeat_interleave(lengths)
    classes = int(node_class.max()) + 1 if len(node_class) else 0
    pair = sentence * classes + node_class
    counts = torch.bincount(pair, minlength=len(lengths) * classes)  # [sentences * classes]
    order = pair.argsort(stable=True)
    rank = torch.empty_like(order)
    rank[order] = torch.arange(len(order)) - (counts.cumsum(0) - counts)[pair[order]]
    counts = counts.view(len(lengths), classes)
    of_sentence = (
        ((counts > 0) * torch.arange(1, classes + 1)).amax(1) if classes else torch.zeros_like(lengths)
    )
    exists = torch.arange(classes) < of_sentence[:, None]  # [sentences, classes]
    return rank, Ragged(counts[exists], of_sentence)


def counts_of(counts: Ragged, rows: Tensor, classes: int) -> Tensor:
    """[batch, classes] The number of nodes of each class. rows: [batch], -1 for no sentence."""
    numbers = torch.arange(classes, device=rows.device)
    of_sentence = counts.lengths[rows].masked_fill(rows < 0, 0)
    index = (counts.offsets[rows][:, None] + numbers).clamp(max=len(counts.values) - 1)
    return counts.values[index].masked_fill(numbers >= of_sentence[:, None], 0)  # [batch, classes]


def positions(counts: Tensor, starts: Tensor, sentence: Tensor, node_class: Tensor, rank: Tensor) -> Tensor:
    """[nodes] The position of each node in the execution order.

    counts: [batch, classes], see `counts_of`; starts: [classes], the first position of each class; sentence,
    node_class, rank: [nodes] those of each node.
    """
    first = counts.cumsum(0) - counts + starts  # [batch, classes]
    return first.flatten()[sentence * counts.shape[1] + node_class] + rank


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
        return _word_vectors(trajectory)
    composes_at = effects.composes  # a `Place`
    composes = composes_at != Place.NOWHERE
    composed = lengths[:, None] + 1 + composes.cumsum(1)
    replacing = lengths[:, None] + (composes_at == Place.B0).cumsum(1)  # nodes of vectors that replace B0
    of_node = torch.zeros_like(forest.top)
    front, buffer_node = torch.ones_like(lengths), torch.zeros_like(lengths)
    fronts, buffer_nodes, heads, dependents = [], [], [], []
    for step in range(composes_at.shape[1]):
        top = forest.top[:, step, None]
        below = forest.parent.gather(1, top).clamp(min=0)
        # [places, batch] in the order of `Place`. Before its arc, the composed vector is at no place.
        vectors = torch.stack(
            [of_node.gather(1, top)[:, 0], of_node.gather(1, below)[:, 0], front, composed[:, step]]
        )

        def at(places: Tensor, vectors: Tensor = vectors) -> Tensor:
            return vectors.gather(0, places[None])[0]

        fronts.append(front)
        buffer_nodes.append(buffer_node)
        heads.append(at(effects.head[:, step]))
        dependents.append(at(effects.dependent[:, step]))
        on_stack, in_buffer = composes_at[:, step] == Place.S0, composes_at[:, step] == Place.B0
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


def _word_vectors(trajectory: Trajectory) -> VectorNumbers:
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
    number = torch.arange(len(sentence))
    pair = vectors.head[which], vectors.dependent[which]
    edges = []
    for vector in pair:
        is_composed = vector > lengths[sentence] + 1
        edges.append(torch.stack([(first + vector)[is_composed], number[is_composed]]))
    used, users = torch.cat(edges, dim=1).numpy()
    level = torch.from_numpy(heights(len(number), used, users))
    rank, of_levels = ranks_and_counts(level, counts)
    columns = [level, rank, *pair, trajectory.transitions[which]]
    return Ragged(torch.stack(columns, dim=1), counts), of_levels
