"""Making a batch: on a GPU without the host, which only uploads the numbers of its sentences.

All sizes are known beforehand, from the shape of the batch. So nothing waits for the device, and a CUDA graph
can contain this.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from parser.batching.device import all_to_device
from parser.batching.forest import Forest, levels_of
from parser.batching.ragged import Padding, Ragged
from parser.replay.batch import Batch, Compositions, SoftTargets, buffer_rows
from parser.replay.execution_order import counts_of, places
from parser.replay.shapes import LevelSizes, Shape
from parser.transitions.inventory import UNKNOWN_LABEL
from parser.treebank.vocabulary import Tokens

if TYPE_CHECKING:
    from parser.replay.examples import Examples


@dataclass(frozen=True)
class Selection:
    """The sentences of a batch, and what the host knows about it."""

    rows: Tensor
    """[sentences] Numbers of examples; -1 for the sentences that the shape has in addition."""
    starts: Tensor
    """[levels] The first node of each level: of the stack forest and, with composition, of the composed
    vectors and of the buffer forest."""
    tokens: Tokens | None
    """The tokens if the host selects them; else they are selected where the batch is made."""
    lengths: Tensor
    """[sentences] in words, on the host; the padding of a padded batch is one more sentence."""
    shape: Shape

    @classmethod
    def of(
        cls, rows: Tensor, lengths: Tensor, tokens: Tokens | None, own: Shape, common: Shape | None
    ) -> Selection:
        """rows, lengths: [batch] the sentences and their words. own: the shape of the batch. common: that to
        which it is padded, if it is.

        Raises ValueError if the common shape is too small.
        """
        if common and not common.holds(own):
            raise ValueError(f"{common} does not hold {own}")
        shape = common or own
        starts = list(_starts(shape.stack.nodes))
        if shape.compositions:
            starts += [*_starts(shape.compositions.levels), *_starts(shape.compositions.buffer.nodes)]
        if own.words < shape.words:
            lengths = torch.cat([lengths, torch.tensor([shape.words - own.words])])
        rows = torch.cat([rows, rows.new_full((shape.sentences - len(rows),), -1)])
        return cls(rows, torch.tensor(starts), tokens, lengths, shape)

    def to(self, device: torch.device) -> Selection:
        return all_to_device(self, device)

    def map(self, function: Callable[[Tensor], Tensor]) -> Selection:
        """With a function applied to all tensors that a device needs."""
        return replace(
            self,
            rows=function(self.rows),
            starts=function(self.starts),
            tokens=None if self.tokens is None else self.tokens.map(function),
        )


def _starts(sizes: Sequence[int]) -> list[int]:
    """The first of each of several adjacent parts of these sizes."""
    return list(accumulate(sizes, initial=0))[:-1]


class _Elements(NamedTuple):
    """The elements of selected sentences in a ragged tensor, and padding, as part of the last sentence."""

    place: Tensor
    """[elements] Where each element is among those of all examples."""
    sentence: Tensor
    """[elements] The sentence of each element, by its position in the batch."""
    position: Tensor
    """[elements] The position of each element in its sentence."""
    starts: Tensor
    """[sentences] The first element of each sentence."""
    lengths: Tensor
    """[sentences] The number of elements of each sentence, without padding."""
    is_padding: Tensor
    """[elements] bool"""

    @classmethod
    def of(cls, ragged: Ragged, rows: Tensor, total: int) -> _Elements:
        """rows: [sentences], see `Selection`. total: the number of elements, with padding."""
        known, count = rows.clamp(min=0), len(rows)
        lengths = torch.where(rows >= 0, ragged.lengths[known], 0)
        ends = lengths.cumsum(0)
        starts = ends - lengths
        filled = torch.cat([lengths[:-1], total - starts[-1:]])
        sentence = torch.arange(count, device=rows.device).repeat_interleave(filled, output_size=total)
        number = torch.arange(total, device=rows.device)
        place = (number + (ragged.offsets[known] - starts)[sentence]).clamp(max=len(ragged.values) - 1)
        return cls(place, sentence, number - starts[sentence], starts, lengths, number >= ends[-1:])

    def values(self, ragged: Ragged, fill: int = 0) -> Tensor:
        """[elements, ...] The elements of a ragged tensor with these lengths, and `fill` for padding."""
        found = ragged.values.index_select(0, self.place)
        return found.masked_fill(self.is_padding.view(-1, *[1] * (found.dim() - 1)), fill)

    def or_0(self, values: Tensor) -> Tensor:
        """[elements] Values, and 0 for padding."""
        return values.masked_fill(self.is_padding, 0)


@dataclass(frozen=True)
class _Order:
    """The nodes of a batch in execution order."""

    elements: _Elements
    columns: Sequence[Tensor]
    """[nodes] The columns of each node after class and rank, see `FlatTrajectories`."""
    level: Tensor
    """[nodes] The level of each node."""
    position: Tensor
    """[nodes] The position of each node in execution order."""

    @classmethod
    def of(
        cls, nodes: Ragged, counts: Ragged, rows: Tensor, total: int, starts: Tensor, of_level: int
    ) -> _Order:
        """nodes, counts: see `FlatTrajectories`. total: the number of nodes, with padding. starts: [levels]
        the first node of each level. of_level: the number of classes of a level.
        """
        elements = _Elements.of(nodes, rows, total)
        node_class, rank, *columns = elements.values(nodes).unbind(1)
        own_counts = counts_of(counts, rows, of_level * len(starts))  # [sentences, classes]
        of_levels = own_counts.sum(0).view(len(starts), of_level)
        first = starts[:, None] + of_levels.cumsum(1) - of_levels  # [levels, classes of each]
        position = places(own_counts, first.flatten(), elements.sentence, node_class, rank)
        return cls(elements, columns, node_class // of_level, position)

    def in_order(self, values: Tensor) -> Tensor:
        """[nodes] Values in execution order, and 0 for padding."""
        # All padding goes to a place after the last one.
        place = self.position.masked_fill(self.elements.is_padding, len(values))
        return values.new_zeros(len(values) + 1).scatter_(0, place, values)[:-1]

    def position_of(self, node: Tensor, sentence: Tensor) -> Tensor:
        """[n] The positions of the nodes [n] of sentences [n], numbered within each sentence."""
        place = self.elements.starts[sentence] + node
        return self.position[place.clamp(0, max(0, len(self.position) - 1))]

    def forest(self, sizes: LevelSizes, starts: Tensor) -> Forest:
        """The forest of nodes whose first column is the parent. A padded node is a child of the first node
        above it."""
        parent_position = self.position_of(self.columns[0], self.elements.sentence)
        parent = parent_position - starts[(self.level - 1).clamp(min=0)]
        return Forest(self.in_order(parent), tuple(levels_of(*sizes)))


@dataclass(frozen=True)
class _Table:
    """The rows of the vector table."""

    words: _Elements
    composed: _Order | None

    def row(self, vector: Tensor, sentence: Tensor) -> Tensor:
        """[..., n] Table rows of the vectors [..., n] of sentences [n], numbered as in `flattened`."""
        words = len(self.words.place)
        last = self.words.lengths[sentence]
        of_word = torch.where(vector > 0, self.words.starts[sentence] + vector - 1, words)
        row = torch.where(vector > last, words + 1, of_word)
        if self.composed is None or not len(self.composed.position):
            return row
        number = vector - last - 2
        return torch.where(number >= 0, words + 2 + self.composed.position_of(number, sentence), row)


def made(examples: Examples, selection: Selection) -> Batch:
    """The batch of a selection, on the device of both."""
    rows, shape, found = selection.rows, selection.shape, examples.trajectories
    words = _Elements.of(examples.gold, rows, shape.words)
    steps = _Elements.of(found.steps, rows, shape.transitions)
    sentence = steps.sentence
    transition, front, top_node, *vectors, buffer_node = steps.values(found.steps).unbind(1)
    stack_starts, composed_starts, buffer_starts = _split(selection.starts, shape)
    stack_size = sum(shape.stack.nodes)
    stack = _Order.of(found.stack_nodes, found.stack_counts, rows, stack_size, stack_starts, of_level=2)
    composed = None
    if shape.compositions:
        assert found.composed is not None
        assert found.composed_counts is not None
        total = sum(shape.compositions.levels)
        composed = _Order.of(found.composed, found.composed_counts, rows, total, composed_starts, of_level=1)
    table = _Table(words, composed)
    compositions = None
    if shape.compositions and composed:
        assert found.buffer_nodes is not None
        assert found.buffer_counts is not None
        sizes = shape.compositions.buffer
        total = sum(sizes.nodes)
        buffer = _Order.of(found.buffer_nodes, found.buffer_counts, rows, total, buffer_starts, of_level=2)
        *pair, composing = composed.columns
        compositions = Compositions(
            pairs=torch.stack(
                [composed.in_order(table.row(own, composed.elements.sentence)) for own in pair], 1
            ),
            transition=composed.in_order(composing),
            levels=_slices(shape.compositions.levels),
            buffer=buffer.forest(sizes, buffer_starts),
            buffer_vectors=buffer.in_order(table.row(buffer.columns[1], buffer.elements.sentence)),
        )
        buffer_row = buffer.position_of(buffer_node, sentence)
    else:
        buffer_row = shape.buffers.row(words.lengths[sentence] + 1 - front, sentence)
    *word_features, top_vector = table.row(torch.stack(vectors), sentence)  # [4, transitions]
    heads, labels = words.values(examples.gold).unbind(1)
    tokens = selection.tokens or Tokens(Ragged(words.values(examples.tokens.numbers), selection.lengths))
    return Batch(
        tokens=tokens,
        heads=heads,
        labels=labels,
        buffer_tokens=() if compositions else buffer_rows(words.lengths, shape.buffers, shape.words),
        history=_history(steps, transition, shape.histories, examples.inventory.no_op),
        forest=stack.forest(shape.stack, stack_starts),
        node_vectors=stack.in_order(table.row(stack.columns[1], stack.elements.sentence)),
        transitions=transition,
        legal=steps.values(found.legal, fill=True),
        optimal_labels=steps.values(found.optimal_labels, fill=UNKNOWN_LABEL),
        step=steps.or_0(shape.histories.row(steps.position, sentence)),
        top_node=steps.or_0(stack.position_of(top_node, sentence)),
        top_vector=top_vector,
        word_features=torch.stack(word_features, dim=1),
        front=front,
        buffer_row=steps.or_0(buffer_row),
        compositions=compositions,
        soft_targets=_unpacked(examples.soft_targets, steps),
        soft_heads=_unpacked(examples.soft_heads, words),
    )


def _split(starts: Tensor, shape: Shape) -> Sequence[Tensor]:
    """The parts of `Selection.starts`."""
    sizes = [len(shape.stack.nodes), 0, 0]
    if shape.compositions:
        sizes[1:] = len(shape.compositions.levels), len(shape.compositions.buffer.nodes)
    return starts.split(sizes)


def _slices(sizes: Sequence[int]) -> tuple[slice, ...]:
    """Slices of adjacent parts of these sizes."""
    return tuple(slice(start, start + size) for start, size in zip(_starts(sizes), sizes, strict=True))


def _history(steps: _Elements, transition: Tensor, padding: Padding, no_op: int) -> tuple[Tensor, ...]:
    """`Batch.history`. transition: [transitions]."""
    groups = zip(
        padding.shapes, steps.starts.split(padding.size), steps.lengths.split(padding.size), strict=True
    )
    found = []
    for (frames, _), starts, lengths in groups:
        frame = torch.arange(frames, device=transition.device)[:, None]
        before = (starts + frame - 1).clamp(0, len(transition) - 1)  # [frames, sentences]
        found.append(torch.where((frame > 0) & (frame < lengths), transition[before], no_op))
    return tuple(found)


def _unpacked(targets: Ragged | None, elements: _Elements) -> SoftTargets | None:
    return None if targets is None else SoftTargets.unpack(elements.values(targets))
