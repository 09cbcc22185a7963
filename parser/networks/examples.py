"""Sentences with known trajectories, ready to be put into batches for replay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from parser.batching.forest import Forest, StackForest
from parser.batching.levels import heights
from parser.batching.padding import Padding
from parser.networks.batch import Batch, Compositions
from parser.transitions.inventory import Inventory
from parser.transitions.oracle import oracle_trajectory
from parser.transitions.system import Place
from parser.transitions.trajectory import Trajectory
from parser.transitions.vectors import Vectors, vectors
from parser.treebank.ragged import Ragged
from parser.treebank.sentence import Sentence
from parser.treebank.tokens import Tokens
from parser.treebank.vocabulary import Vocabulary

PREPARED_TOGETHER = 512


@dataclass(frozen=True)
class Examples:
    """Sentences in flat tensors. Vectors are numbered by sentence, as in `transitions.vectors`."""

    inventory: Inventory
    tokens: Tokens
    gold: Ragged
    """[words, 2]: the head, 0 for ROOT, and the label of each word."""
    steps: Ragged
    """[transitions, 5]: the transition; before it B0, its vector and the node on top; after it the vector on
    top."""
    legal: Ragged
    """[transitions, kinds] bool"""
    right: Ragged
    """[transitions, kinds] The label with which each would be right, or NOT_RIGHT."""
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
        for rows in by_length.split(PREPARED_TOGETHER):
            trajectory = oracle_trajectory(inventory, heads.select(rows), labels.select(rows))
            found.append(_flatten(inventory, trajectory, heads.lengths[rows]))
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
        lengths, first_word = tokens.lengths, tokens.numbers.offsets
        transition, front, front_vector, top_node, top_vector = steps.values.unbind(1)
        parent, depth, node_vector = nodes.values.unbind(1)
        sentence, sentence_of_node = steps.row_of_element(), nodes.row_of_element()
        forest = Forest.of(torch.where(parent >= 0, parent + nodes.offsets[sentence_of_node], -1), depth)
        table = _Table(tokens, self.composed.select(rows))
        top = top_node + nodes.offsets[sentence]
        below = parent[top].clamp(min=0) + nodes.offsets[sentence]
        step, sentence_of_word = steps.place_in_row(), tokens.numbers.row_of_element()
        goes_on = step + 1 < steps.lengths[sentence]
        buffers, histories = Padding.of(lengths + 1, group), Padding.of(steps.lengths, group)
        if self.inventory.system.composes:
            compositions = table.compositions()
            buffer_row = compositions.buffer.position[table.buffer_node(front, front_vector, sentence)]
        else:
            compositions = None
            buffer_row = buffers.row(lengths[sentence] + 1 - front, sentence)
        return Batch(
            tokens=tokens,
            buffer_tokens=buffers.spread(
                frame=(lengths + first_word)[sentence_of_word] - torch.arange(tokens.words),
                sequence=sentence_of_word,
                values=torch.arange(tokens.words),
                fill=tokens.words + 1,
            ),
            history=histories.spread(
                frame=step[goes_on] + 1,
                sequence=sentence[goes_on],
                values=transition[goes_on],
                fill=self.inventory.wait,
            ),
            forest=forest,
            node_vectors=table.row(node_vector, sentence_of_node)[forest.order],
            transitions=transition,
            legal=self.legal.select(rows).values,
            right=self.right.select(rows).values,
            step=histories.row(step, sentence),
            top_node=forest.position[top],
            top_vector=table.row(top_vector, sentence),
            shown=torch.stack(
                [table.row(of, sentence) for of in (node_vector[top], node_vector[below], front_vector)],
                dim=1,
            ),
            front=front,
            buffer_row=buffer_row,
            compositions=compositions,
        )


class _Table:
    """The rows of a batch's table of vectors: words, ROOT, the buffer's end, what is composed by level."""

    def __init__(self, tokens: Tokens, composed: Ragged):
        self._tokens, self._composed = tokens, composed
        self._level = composed.values[:, 3]
        self._order = self._level.argsort(stable=True)
        self._position = self._order.argsort()

    def row(self, vector: Tensor, sentence: Tensor) -> Tensor:
        """[n] vector: [n] numbers in their sentences [n]."""
        words, lengths = self._tokens.words, self._tokens.lengths[sentence]
        of_word = torch.where(vector > 0, self._tokens.numbers.offsets[sentence] + vector - 1, words)
        row = torch.where(vector > lengths, words + 1, of_word)
        is_composed = vector > lengths + 1
        row[is_composed] = words + 2 + self._position[self._number(vector, sentence)[is_composed]]
        return row

    def _number(self, vector: Tensor, sentence: Tensor) -> Tensor:
        """[n] Which of all that the batch composes."""
        return self._composed.offsets[sentence] + vector - self._tokens.lengths[sentence] - 2

    def compositions(self) -> Compositions:
        sentence = self._composed.row_of_element()
        head, dependent, transition, _, _ = self._composed.values.unbind(1)
        ends = torch.bincount(self._level).cumsum(0).tolist() if len(self._level) else []
        forest, vectors = self._buffer()
        return Compositions(
            head=self.row(head, sentence)[self._order],
            dependent=self.row(dependent, sentence)[self._order],
            transition=transition[self._order],
            levels=tuple(map(slice, [0, *ends], ends)),
            buffer=forest,
            buffer_vectors=vectors[forest.order],
        )

    def _buffer(self) -> tuple[Forest, Tensor]:
        """Nodes of all words and ends by sentence, then of what replaces them; and their vectors' rows."""
        lengths = self._tokens.lengths
        fronts = Ragged(torch.empty(self._tokens.words + len(lengths)), lengths + 1)
        sentence, front = fronts.row_of_element(), fronts.place_in_row() + 1
        depth = lengths[sentence] + 1 - front
        parent = torch.where(depth > 0, torch.arange(len(front)) + 1, -1)
        of_composed = self._composed.row_of_element()
        replaced = self._composed.values[:, 4]
        replaces = replaced > 0
        beside = (fronts.offsets[of_composed] + replaced - 1)[replaces]
        forest = Forest.of(torch.cat([parent, parent[beside]]), torch.cat([depth, depth[beside]]))
        composed_rows = self._tokens.words + 2 + self._position
        return forest, torch.cat([self.row(front, sentence), composed_rows[replaces]])

    def buffer_node(self, front: Tensor, vector: Tensor, sentence: Tensor) -> Tensor:
        """[n] Of the fronts [n] of sentences [n], which the vectors [n] stand for."""
        lengths = self._tokens.lengths
        words_and_ends = self._tokens.words + len(lengths)
        replaces = (self._composed.values[:, 4] > 0).long()
        node = self._tokens.numbers.offsets[sentence] + sentence + front - 1
        is_composed = vector > lengths[sentence] + 1
        number = self._number(vector, sentence)[is_composed]
        node[is_composed] = words_and_ends + (replaces.cumsum(0) - 1)[number]
        return node


def buffer_tokens(lengths: Tensor) -> Tensor:
    """[longest + 1, batch] Rows of the token table in the order of the buffers: the end, the last word, ...

    lengths: [batch]. A shorter sentence goes on with ends, which nobody reads.
    """
    frame = torch.arange(int(lengths.max()) + 1, device=lengths.device)[:, None]
    exists = (frame > 0) & (frame <= lengths)
    return torch.where(exists, lengths.cumsum(0) - frame, lengths.sum() + 1)


def _flatten(inventory: Inventory, trajectory: Trajectory, lengths: Tensor) -> tuple[Ragged, ...]:
    """Steps, legal and right ones, stack nodes and compositions of padded trajectories; nodes by sentence."""
    taken = trajectory.transitions != inventory.wait  # [batch, steps]
    forest = StackForest.of(trajectory.stack_read, trajectory.stack_move)
    number = forest.is_node.cumsum(1) - 1  # [batch, steps + 1]
    top_node = number.gather(1, forest.top)[:, :-1]
    parent = number.gather(1, forest.parent.clamp(min=0)).where(forest.parent >= 0, -1)
    named = vectors(inventory, trajectory, forest, lengths)
    top_vector = named.of_node[:, 1:]
    steps = [trajectory.transitions, trajectory.front, named.front, top_node, top_vector]
    nodes = torch.stack([parent, forest.depth, named.of_node], dim=2)
    step_counts = taken.sum(1)
    return (
        Ragged(torch.stack(steps, dim=2)[taken], step_counts),
        Ragged(trajectory.legal[taken], step_counts),
        Ragged(trajectory.right[taken], step_counts),
        Ragged(nodes[forest.is_node], forest.is_node.sum(1)),
        _composed(inventory, trajectory, named, lengths),
    )


def _composed(inventory: Inventory, trajectory: Trajectory, named: Vectors, lengths: Tensor) -> Ragged:
    """[vectors, 5] As `Examples.composed`."""
    which = named.composes & (trajectory.transitions != inventory.wait)
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
