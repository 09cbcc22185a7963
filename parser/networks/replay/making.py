"""Making a batch: on a GPU without the host, which only uploads the numbers of its sentences.

All sizes are known beforehand, from the shape of the batch. So nothing waits for the device, and a CUDA graph
can contain this.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from parser.batching.device import all_to_device
from parser.batching.forest_lstm import Forest, levels_of
from parser.batching.ragged import Padding, Ragged, slices_of
from parser.networks.replay.batch import Batch, Compositions, SoftTargets, buffer_rows
from parser.networks.replay.flattened import counts_of, positions
from parser.networks.replay.shapes import LevelSizes, Shape
from parser.transitions.labelled import UNKNOWN_LABEL
from parser.treebank.tokens import Tokens

if TYPE_CHECKING:
    from parser.networks.replay.examples import Examples


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
    is_padded: bool
    """Whether the shape is a common one. It may be larger than the batch, but need not be: a CUDA graph also
    serves batches that fill it."""

    @classmethod
    def of(
        cls, rows: Tensor, lengths: Tensor, tokens: Tokens | None, shape: Shape, common: Shape | None
    ) -> Selection:
        """rows, lengths: [batch] the sentences and their words. shape: of the batch. common: that to which it
        is padded, if it is.

        Raises ValueError if the common shape is too small.
        """
        if common:
            if not common.holds(shape):
                raise ValueError(f"{common} does not hold {shape}")
            lengths = torch.cat([lengths, torch.tensor([common.words - shape.words])])
            shape = common
        sizes = [shape.stack.nodes]
        if shape.compositions:
            sizes += [shape.compositions.levels, shape.compositions.buffer.nodes]
        starts = [level.start for of_forest in sizes for level in slices_of(of_forest)]
        rows = torch.cat([rows, rows.new_full((shape.sentences - len(rows),), -1)])
        return cls(rows, torch.tensor(starts), tokens, lengths, shape, is_padded=common is not None)

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


class _Elements(NamedTuple):
    """The elements of selected sentences in a ragged tensor, and padding, as part of the last sentence."""

    source: Tensor
    """[elements] The number of each element among those of all examples."""
    sentence: Tensor
    """[elements] The sentence of each element, by its position in the batch."""
    position: Tensor
    """[elements] The position of each element in its sentence."""
    starts: Tensor
    """[sentences] The first element of each sentence."""
    lengths: Tensor
    """[sentences] The number of elements of each sentence, without padding."""
    is_padding: Tensor | None
    """[elements] bool; None if there is none."""

    @classmethod
    def of(cls, ragged: Ragged, selection: Selection, total: int) -> _Elements:
        """total: the number of elements, with padding."""
        rows = selection.rows
        number = torch.arange(total, device=rows.device)
        lengths, filled, is_padding = ragged.lengths[rows], None, None
        if selection.is_padded:
            lengths = torch.where(rows >= 0, lengths, 0)
        ends = lengths.cumsum(0)
        starts = ends - lengths
        if selection.is_padded:
            filled = torch.cat([lengths[:-1], total - starts[-1:]])
            is_padding = number >= ends[-1:]
        sentences = torch.arange(len(rows), device=rows.device)
        sentence = sentences.repeat_interleave(lengths if filled is None else filled, output_size=total)
        source = number + (ragged.offsets[rows] - starts)[sentence]
        if selection.is_padded:
            source, starts = source.clamp(max=len(ragged.values) - 1), starts.clamp(max=total - 1)
        return cls(source, sentence, number - starts[sentence], starts, lengths, is_padding)

    def values(self, ragged: Ragged, fill: int = 0) -> Tensor:
        """[elements, ...] The elements of a ragged tensor with these lengths, and `fill` for padding."""
        return self.filled(ragged.values.index_select(0, self.source), fill)

    def filled(self, values: Tensor, fill: int = 0) -> Tensor:
        """[elements, ...] Values, and `fill` for padding."""
        if self.is_padding is None:
            return values
        return values.masked_fill(self.is_padding.view(-1, *[1] * (values.dim() - 1)), fill)


@dataclass(frozen=True)
class _ExecutionOrder:
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
        cls,
        nodes: Ragged | None,
        counts: Ragged | None,
        selection: Selection,
        sizes: Sequence[int],
        starts: Tensor,
        of_level: int,
    ) -> _ExecutionOrder:
        """nodes, counts: see `FlatTrajectories`. sizes: of the levels, with padding. starts: [levels] the
        first node of each level. of_level: the number of classes of a level.
        """
        assert nodes is not None
        assert counts is not None
        elements = _Elements.of(nodes, selection, sum(sizes))
        node_class, rank, *columns = elements.values(nodes).unbind(1)
        by_class = counts_of(counts, selection.rows, of_level * len(starts))  # [sentences, classes]
        of_levels = by_class.sum(0).view(len(starts), of_level)
        first = starts[:, None] + of_levels.cumsum(1) - of_levels  # [levels, classes of each]
        position = positions(by_class, first.flatten(), elements.sentence, node_class, rank)
        return cls(elements, columns, node_class // of_level, position)

    def in_order(self, values: Tensor) -> Tensor:
        """[nodes] Values in execution order, and 0 for padding."""
        # All padding goes to a position after the last one.
        position = self.elements.filled(self.position, fill=len(values))
        return values.new_zeros(len(values) + 1).scatter_(0, position, values)[:-1]

    def position_of(self, node: Tensor, sentence: Tensor) -> Tensor:
        """[n] The positions of the nodes [n] of sentences [n], numbered within each sentence."""
        return self.position[self.elements.starts[sentence] + node]

    def forest(self, sizes: LevelSizes, starts: Tensor) -> Forest:
        """The forest of nodes whose first column is the parent. A padded node is a child of the first node
        above it."""
        # For roots, which are numbered -1, the result has no meaning, and is not used.
        parent = self.position_of(self.columns[0], self.elements.sentence) - starts[self.level - 1]
        return Forest(self.in_order(parent), tuple(levels_of(*sizes)))


@dataclass(frozen=True)
class _Table:
    """The rows of the vector table."""

    words: _Elements
    composed: _ExecutionOrder | None

    def row(self, vector: Tensor, sentence: Tensor) -> Tensor:
        """[..., n] Table rows of the vectors [..., n] of sentences [n], numbered as in `flattened`."""
        words = len(self.words.source)
        last = self.words.lengths[sentence]
        of_word = torch.where(vector > 0, self.words.starts[sentence] + vector - 1, words)
        row = torch.where(vector > last, words + 1, of_word)
        if self.composed is None or not len(self.composed.position):
            return row
        number = vector - last - 2
        is_composed = number >= 0
        node = torch.where(is_composed, self.composed.elements.starts[sentence] + number, 0)
        return torch.where(is_composed, words + 2 + self.composed.position[node], row)


def made(examples: Examples, selection: Selection) -> Batch:
    """The batch of a selection, on the device of both."""
    shape, flat = selection.shape, examples.trajectories
    words = _Elements.of(examples.gold, selection, shape.words)
    steps = _Elements.of(flat.steps, selection, shape.transitions)
    sentence = steps.sentence
    # Contiguous, because the columns are read many times.
    transition, front, top_node, *vectors, buffer_node = steps.values(flat.steps).T.contiguous()
    levels_of_forests = [len(shape.stack.nodes), 0, 0]
    if shape.compositions:
        levels_of_forests[1:] = len(shape.compositions.levels), len(shape.compositions.buffer.nodes)
    stack_starts, composed_starts, buffer_starts = selection.starts.split(levels_of_forests)
    stack = _ExecutionOrder.of(
        flat.stack_nodes, flat.stack_counts, selection, shape.stack.nodes, stack_starts, 2
    )
    table, compositions = _Table(words, None), None
    if shape.compositions:
        levels, sizes = shape.compositions
        composed = _ExecutionOrder.of(
            flat.composed, flat.composed_counts, selection, levels, composed_starts, 1
        )
        buffer = _ExecutionOrder.of(
            flat.buffer_nodes, flat.buffer_counts, selection, sizes.nodes, buffer_starts, 2
        )
        table = _Table(words, composed)
        *pair, composing = composed.columns
        pairs = table.row(torch.stack(pair), composed.elements.sentence)  # [2, composed vectors]
        compositions = Compositions(
            pairs=torch.stack(list(map(composed.in_order, pairs)), dim=1),
            transition=composed.in_order(composing),
            levels=tuple(slices_of(levels)),
            buffer=buffer.forest(sizes, buffer_starts),
            buffer_vectors=buffer.in_order(table.row(buffer.columns[1], buffer.elements.sentence)),
        )
        buffer_row = buffer.position_of(buffer_node, sentence)
    else:
        buffer_row = shape.buffers.row(words.lengths[sentence] + 1 - front, sentence)
    *word_features, top_vector = table.row(torch.stack(vectors), sentence)  # [4, steps]
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
        legal=steps.values(flat.legal, fill=True),
        optimal_labels=steps.values(flat.optimal_labels, fill=UNKNOWN_LABEL),
        step=steps.filled(shape.histories.row(steps.position, sentence)),
        top_node=steps.filled(stack.position_of(top_node, sentence)),
        top_vector=top_vector,
        word_features=torch.stack(word_features, dim=1),
        front=front,
        buffer_row=steps.filled(buffer_row),
        compositions=compositions,
        soft_targets=_unpacked(examples.soft_targets, steps),
        soft_heads=_unpacked(examples.soft_heads, words),
    )


def _history(steps: _Elements, transition: Tensor, padding: Padding, no_op: int) -> tuple[Tensor, ...]:
    """`Batch.history`. transition: [steps]."""
    groups = zip(
        padding.shapes, steps.starts.split(padding.size), steps.lengths.split(padding.size), strict=True
    )
    history = []
    for (frames, _), starts, lengths in groups:
        frame = torch.arange(frames, device=transition.device)[:, None]
        before = (starts + frame - 1).clamp(0, len(transition) - 1)  # [frames, sentences]
        history.append(torch.where((frame > 0) & (frame < lengths), transition[before], no_op))
    return tuple(history)


def _unpacked(targets: Ragged | None, elements: _Elements) -> SoftTargets | None:
    return None if targets is None else SoftTargets.unpack(elements.values(targets))
