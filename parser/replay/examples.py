"""Sentences with known trajectories, from which batches for replay are taken."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import torch
from torch import Tensor

from parser.batching.forest import Forest, StackForest
from parser.batching.levels import heights
from parser.batching.ragged import Padding, Ragged
from parser.replay.batch import Batch, SoftTargets, VectorNumbers, VectorRows, buffer_rows, number_vectors
from parser.system.progress_bar import PROGRESS_BAR, ProgressBar
from parser.transitions.inventory import Inventory
from parser.transitions.oracle import known_facts, oracle_trajectory, partial_trajectory
from parser.transitions.system import Place
from parser.transitions.trajectory import Trajectory
from parser.treebank.batches import split_by_words
from parser.treebank.sentence import NO_HEAD, Sentence
from parser.treebank.vocabulary import Tokens, Vocabulary

MAX_GROUP_SENTENCES = 512
"""Most sentences for which the oracle runs at the same time."""
MAX_GROUP_WORDS = 100_000
"""Most words of these sentences, including padding. This bounds the memory."""
OF_TRAJECTORY = "steps", "legal", "optimal_labels", "nodes", "composed"
"""Fields of `Examples`, in the order of `_flatten`."""


@dataclass(frozen=True)
class Examples:
    """Sentences with their trajectories, in flat tensors.

    Vectors are numbered within each sentence, see `number_vectors`.
    """

    inventory: Inventory
    tokens: Tokens
    gold: Ragged
    """[words, 2] Head (0 for ROOT, NO_HEAD if unknown) and label of each word."""
    steps: Ragged
    """[transitions, 5] The transition; before it, B0, the vector of B0 and the node on top of the stack;
    after it, the vector on top of the stack."""
    legal: Ragged
    """[transitions, kinds] bool: which kinds of transitions were legal."""
    optimal_labels: Ragged
    """[transitions, kinds] The label with which each kind was optimal; NOT_OPTIMAL for the others."""
    nodes: Ragged
    """[nodes, 3] Parent (-1 for none), depth and vector of each node of the stack forest."""
    composed: Ragged
    """[vectors, 5] For each composed vector: the vectors of head and dependent, the transition, the level,
    and B0 if the vector replaces that of B0, else 0."""
    soft_targets: Ragged | None = None
    """[transitions, 2, k] `SoftTargets.packed`; None without a teacher."""
    soft_heads: Ragged | None = None
    """[words, 2, k] `SoftTargets.packed`; None without a teacher that scores heads."""
    facts: Ragged | None = None
    """[words, 4] See `known_facts`; None if all trees are complete."""

    @classmethod
    def of(cls, inventory: Inventory, vocabulary: Vocabulary, sentences: Sequence[Sentence]) -> Examples:
        """Prepare sentences. Raises ValueError if a tree is non-projective."""
        heads, labels = vocabulary.encode_heads(sentences), vocabulary.encode_labels(sentences)
        return cls.prepare(inventory, vocabulary.encode_tokens(sentences, gold=True), heads, labels)

    @classmethod
    def prepare(cls, inventory: Inventory, tokens: Tokens, heads: Ragged, labels: Ragged) -> Examples:
        """Run the static oracle on all trees. If a tree is known only in part, it uses the known part.

        Raises ValueError if a tree is non-projective.
        """
        gold = Ragged(torch.stack([heads.values, labels.values], dim=1), heads.lengths)
        if not len(heads):
            nothing = Ragged(torch.zeros(0, 5, dtype=torch.long), heads.lengths)
            return cls(inventory, tokens, gold, *[nothing] * 5)
        facts, is_partial = known_facts(heads), _are_partial(heads)
        by_length = heads.lengths.argsort()
        orders = [by_length[~is_partial[by_length]], by_length[is_partial[by_length]]]
        found = []
        with ProgressBar(total=len(heads.values), desc="trajectories", unit="word", **PROGRESS_BAR) as bar:
            for rows in chain(*(_groups(order, heads.lengths) for order in orders)):
                trees = heads.select(rows), labels.select(rows)
                if facts and is_partial[rows[0]]:
                    trajectory = partial_trajectory(inventory, *trees, facts.select(rows))
                else:
                    trajectory = oracle_trajectory(inventory, *trees)
                found.append(_flatten(inventory, trajectory, heads.lengths[rows]))
                bar.update(int(heads.lengths[rows].sum()))
        original_order = torch.cat(orders).argsort()
        joined = (Ragged.join(parts).select(original_order) for parts in zip(*found, strict=True))
        return replace(cls(inventory, tokens, gold, *joined), facts=facts)

    @classmethod
    def of_trajectory(
        cls, inventory: Inventory, tokens: Tokens, gold: Ragged, trajectory: Trajectory
    ) -> Examples:
        """Prepare sentences with given trajectories."""
        return cls(inventory, tokens, gold, *_flatten(inventory, trajectory, tokens.lengths))

    def with_other_trajectories(self, rows: Tensor, which: Tensor, others: Examples) -> Examples:
        """The sentences `rows` [batch], without soft targets.

        which: [batch] bool, the sentences that get the trajectories of `others`, in the same order.
        """
        place = torch.cat([(~which).nonzero(), which.nonzero()]).squeeze(1).argsort()
        trajectories = (
            Ragged.join([getattr(self, name).select(rows[~which]), getattr(others, name)]).select(place)
            for name in OF_TRAJECTORY
        )
        return Examples(self.inventory, self.tokens.select(rows), self.gold.select(rows), *trajectories)

    def are_partial(self, rows: Tensor) -> Tensor:
        """[batch] bool: whether the trees of the sentences `rows` [batch] are known only in part."""
        if self.facts is None:
            return torch.zeros(len(rows), dtype=torch.bool)
        return _are_partial(self.gold.select(rows))

    def __len__(self) -> int:
        return len(self.tokens)

    def batch(self, rows: Tensor, group: int | None = None) -> Batch:
        """A batch of the sentences `rows` [batch].

        group: number of sentences, sorted by length, that are padded to a common length; None for all.
        """
        if group:
            rows = rows[self.tokens.lengths[rows].argsort(descending=True, stable=True)]
        tokens, nodes = self.tokens.select(rows), self.nodes.select(rows)
        places = self.steps.elements(rows)  # also those of legal transitions and optimal labels
        steps = Ragged(self.steps.values[places], self.steps.lengths[rows])
        lengths = tokens.lengths
        transition, front, front_vector, top_node, top_vector = steps.values.unbind(1)
        parent, depth, node_vector = nodes.values.unbind(1)
        sentence, sentence_of_node = steps.row_of_element(), nodes.row_of_element()
        forest = Forest.of(torch.where(parent >= 0, parent + nodes.offsets[sentence_of_node], -1), depth)
        table = VectorRows(tokens, self.composed.select(rows))
        top = top_node + nodes.offsets[sentence]
        below = parent[top].clamp(min=0) + nodes.offsets[sentence]
        used = torch.stack([node_vector[top], node_vector[below], front_vector, top_vector])  # [4, S]
        *word_features, top_vector_row = table.row(used, sentence)
        histories = Padding.of(steps.lengths, group)
        compositions = table.compositions() if self.inventory.system.composes else None
        buffer_tokens = () if compositions else buffer_rows(lengths, group)
        if compositions:
            buffer_row = compositions.buffer.position[table.buffer_node(front, front_vector, sentence)]
        else:
            buffer_row = Padding.of(lengths + 1, group).row(lengths[sentence] + 1 - front, sentence)
        heads, labels = self.gold.select(rows).values.unbind(1)
        return Batch(
            tokens=tokens,
            heads=heads,
            labels=labels,
            buffer_tokens=buffer_tokens,
            history=_previous_transitions(steps, histories, self.inventory.no_op),
            forest=forest,
            node_vectors=table.row(node_vector, sentence_of_node)[forest.order],
            transitions=transition,
            legal=self.legal.values[places],
            optimal_labels=self.optimal_labels.values[places],
            step=histories.row(steps.position_in_row(), sentence),
            top_node=forest.position[top],
            top_vector=top_vector_row,
            word_features=torch.stack(word_features, dim=1),
            front=front,
            buffer_row=buffer_row,
            compositions=compositions,
            soft_targets=_unpacked(self.soft_targets, rows),
            soft_heads=_unpacked(self.soft_heads, rows),
        )


def _are_partial(gold: Ragged) -> Tensor:
    """[sentences] bool: whether a head is unknown. gold: see `Examples.gold`; or only heads."""
    found = torch.zeros(len(gold), dtype=torch.bool)
    heads = gold.values.view(len(gold.values), -1)[:, 0]
    found[gold.row_of_element()[heads == NO_HEAD]] = True
    return found


def _unpacked(targets: Ragged | None, rows: Tensor) -> SoftTargets | None:
    return SoftTargets.unpack(targets.select(rows).values) if targets else None


def _previous_transitions(steps: Ragged, histories: Padding, no_op: int) -> tuple[Tensor, ...]:
    """`Batch.history`. steps: see `Examples.steps`."""
    step, sentence = steps.position_in_row(), steps.row_of_element()
    is_not_last = step + 1 < steps.lengths[sentence]
    return histories.spread(
        frame=step[is_not_last] + 1,
        sequence=sentence[is_not_last],
        values=steps.values[is_not_last, 0],
        fill=no_op,
    )


def _groups(order: Tensor, lengths: Tensor) -> Iterator[Tensor]:
    """Split sentences [sentences] into groups for the oracle. lengths: those of all sentences, by index."""
    for rows in order.split(MAX_GROUP_SENTENCES) if len(order) else ():
        yield from split_by_words(rows, lengths[rows].tolist(), MAX_GROUP_WORDS)


def _flatten(inventory: Inventory, trajectory: Trajectory, lengths: Tensor) -> tuple[Ragged, ...]:
    """`Examples.steps`, `legal`, `optimal_labels`, `nodes` and `composed`, from padded trajectories."""
    taken = trajectory.transitions != inventory.no_op  # [batch, steps]
    forest = StackForest.of(trajectory.stack_read, trajectory.stack_move)
    number = forest.is_node.cumsum(1) - 1  # [batch, steps + 1]
    top_node = number.gather(1, forest.top)[:, :-1]
    parent = number.gather(1, forest.parent.clamp(min=0)).where(forest.parent >= 0, -1)
    vectors = number_vectors(inventory, trajectory, forest, lengths)
    top_vector = vectors.of_node[:, 1:]
    steps = [trajectory.transitions, trajectory.front, vectors.front, top_node, top_vector]
    nodes = torch.stack([parent, forest.depth, vectors.of_node], dim=2)
    step_counts = taken.sum(1)
    return (
        Ragged(torch.stack(steps, dim=2)[taken], step_counts),
        Ragged(trajectory.legal[taken], step_counts),
        Ragged(trajectory.optimal_labels[taken], step_counts),
        Ragged(nodes[forest.is_node], forest.is_node.sum(1)),
        _composed(inventory, trajectory, vectors, lengths),
    )


def _composed(
    inventory: Inventory, trajectory: Trajectory, vectors: VectorNumbers, lengths: Tensor
) -> Ragged:
    """`Examples.composed`: the composed vectors of padded trajectories."""
    which = vectors.composes & (trajectory.transitions != inventory.no_op)
    counts = which.sum(1)
    sentence = torch.arange(len(lengths)).repeat_interleave(counts)
    first = (counts.cumsum(0) - counts - lengths - 2)[sentence]
    own_number = torch.arange(len(sentence))
    edges = []
    for vector in (vectors.head[which], vectors.dependent[which]):
        is_composed = vector > lengths[sentence] + 1
        edges.append(torch.stack([(first + vector)[is_composed], own_number[is_composed]]))
    used, users = torch.cat(edges, dim=1).numpy()
    level = torch.from_numpy(heights(len(own_number), used, users))
    into_buffer = inventory.effects(trajectory.transitions[which]).composes == Place.B0
    replaced = torch.where(into_buffer, trajectory.front[which], 0)
    columns = [vectors.head[which], vectors.dependent[which], trajectory.transitions[which], level, replaced]
    return Ragged(torch.stack(columns, dim=1), counts)
