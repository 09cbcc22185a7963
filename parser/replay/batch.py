"""A batch of known trajectories, the input of replay, and the rows of its vector table.

The table contains the words of all sentences, ROOT, the end of the buffer and, with composition, the composed
vectors, level by level. In a sentence of n words, vector 0 is that of ROOT, 1 to n are the words, and n + 1
is the end of the buffer. Composed vectors follow in the order of the steps that compose them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from parser.batching.device import all_to_device
from parser.batching.forest import Forest, StackForest
from parser.batching.ragged import Ragged
from parser.transitions.inventory import Inventory
from parser.transitions.system import Place, front_positions
from parser.transitions.trajectory import Trajectory
from parser.treebank.vocabulary import Tokens


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
        found, choices = probabilities.topk(min(k, probabilities.shape[1]), dim=1)  # [rows, k]
        # Impossible choices have a score of -inf, which gives NaN when multiplied by 0.
        return cls(torch.where(found > 0, choices, choices[:, :1]), weight * found)

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


@dataclass(frozen=True)
class VectorNumbers:
    """The numbers of the vectors that each step uses."""

    of_node: Tensor
    """[batch, steps + 1] The vector from which each node of the stack forest was computed."""
    front: Tensor
    """[batch, steps] The vector of B0 before each step."""
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
    of_node = torch.zeros_like(forest.top)
    front = torch.ones_like(lengths)
    fronts, heads, dependents = [], [], []
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
        heads.append(at(effects.head[:, step]))
        dependents.append(at(effects.dependent[:, step]))
        on_stack, in_buffer = place[:, step] == Place.S0, place[:, step] == Place.B0
        of_node[:, step + 1] = torch.where(on_stack, composed[:, step], at(effects.top[:, step]))
        next_word = trajectory.front[:, step] + 1
        front = torch.where(in_buffer, composed[:, step], front)
        front = torch.where(effects.buffer_move[:, step] == 1, next_word, front)
    return VectorNumbers(
        of_node=of_node,
        front=torch.stack(fronts, dim=1),
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
        composes=nothing.bool(),
        head=nothing,
        dependent=nothing,
    )


class VectorRows:
    """Maps the vectors of a sentence, numbered as by `number_vectors`, to rows of the table."""

    def __init__(self, tokens: Tokens, composed: Ragged):
        """composed: see `Examples.composed`."""
        self._tokens, self._composed = tokens, composed
        self._pairs = composed.values[:, :2].T  # [2, A] head and dependent of each composed vector
        self._transition, self._level, self._replaced = composed.values[:, 2:].unbind(1)
        self._order = self._level.argsort(stable=True)
        self._position = self._order.argsort()

    def row(self, vector: Tensor, sentence: Tensor) -> Tensor:
        """[..., n] Table rows of the vectors [..., n] of sentences [n]."""
        words, lengths = self._tokens.words, self._tokens.lengths[sentence]
        of_word = torch.where(vector > 0, self._tokens.numbers.offsets[sentence] + vector - 1, words)
        row = torch.where(vector > lengths, words + 1, of_word)
        is_composed = vector > lengths + 1
        row[is_composed] = words + 2 + self._position[self._number(vector, sentence)[is_composed]]
        return row

    def _number(self, vector: Tensor, sentence: Tensor) -> Tensor:
        """[..., n] The indices of composed vectors among those of the batch."""
        return self._composed.offsets[sentence] + vector - self._tokens.lengths[sentence] - 2

    def compositions(self) -> Compositions:
        """The composed vectors, ordered by level."""
        sentence = self._composed.row_of_element()
        ends = torch.bincount(self._level).cumsum(0).tolist() if len(self._level) else []
        forest, vectors = self._buffer()
        return Compositions(
            pairs=self.row(self._pairs, sentence)[:, self._order].T.contiguous(),
            transition=self._transition[self._order],
            levels=tuple(map(slice, [0, *ends], ends)),
            buffer=forest,
            buffer_vectors=vectors[forest.order],
        )

    def _buffer(self) -> tuple[Forest, Tensor]:
        """The forest of buffer states, and the table row [nodes] of each node's input.

        First the nodes of all words and ends, by sentence; then those of composed vectors that replace B0.
        """
        lengths = self._tokens.lengths
        sentence, position = front_positions(lengths)
        depth = lengths[sentence] - position
        parent = torch.where(depth > 0, torch.arange(len(position)) + 1, -1)
        of_composed = self._composed.row_of_element()
        replaces = self._replaced > 0
        replaced = self._front(of_composed, self._replaced)[replaces]
        forest = Forest.of(torch.cat([parent, parent[replaced]]), torch.cat([depth, depth[replaced]]))
        composed_rows = self._tokens.words + 2 + self._position
        return forest, torch.cat([front_rows(self._tokens), composed_rows[replaces]])

    def _front(self, sentence: Tensor, front: Tensor) -> Tensor:
        """[n] Indices, in the order of `front_positions`, of the buffer fronts [n] of sentences [n]."""
        return self._tokens.numbers.offsets[sentence] + sentence + front - 1

    def buffer_node(self, front: Tensor, vector: Tensor, sentence: Tensor) -> Tensor:
        """[n] Buffer nodes of the fronts [n] of sentences [n], whose vectors [n] may be composed."""
        lengths = self._tokens.lengths
        words_and_ends = self._tokens.words + len(lengths)
        replaces = (self._replaced > 0).long()
        node = self._front(sentence, front)
        is_composed = vector > lengths[sentence] + 1
        number = self._number(vector, sentence)[is_composed]
        node[is_composed] = words_and_ends + (replaces.cumsum(0) - 1)[number]
        return node


def front_rows(tokens: Tokens) -> Tensor:
    """[words + sentences] Table rows of all possible buffer fronts, in the order of `front_positions`."""
    sentence, position = front_positions(tokens.lengths)
    is_word = position < tokens.lengths[sentence]
    return torch.where(is_word, tokens.numbers.offsets[sentence] + position, tokens.words + 1)


def buffer_rows(lengths: Tensor, group: int | None = None) -> tuple[Tensor, ...]:
    """The table rows that buffers read, for each group of sentences [longest + 1, sentences].

    Each column starts with the end of the buffer, followed by the words from last to first; shorter sentences
    are padded with the end. lengths: [batch]. group: sentences in a group; None for a single group.
    """
    size = group or len(lengths)
    groups = zip(lengths.split(size), lengths.cumsum(0).split(size), strict=True)
    return tuple(_group_rows(own, ends, lengths.sum() + 1) for own, ends in groups)


def _group_rows(lengths: Tensor, ends: Tensor, end_row: Tensor) -> Tensor:
    """[longest + 1, sentences] The rows of one group.

    ends: [sentences] the row after the last word. end_row: the row of the end of the buffer.
    """
    frame = torch.arange(int(lengths.max()) + 1, device=lengths.device)[:, None]
    is_word = (frame > 0) & (frame <= lengths)
    return torch.where(is_word, ends - frame, end_row)
