"""Batches padded to a few shapes, so that they can be run as CUDA graphs, one for each shape.

Padding changes neither loss nor gradients: padded transitions are all legal and all optimal, so that their
loss and its gradient are exactly 0, and nothing else reads padded words, frames and nodes. Only for parsers
without composition, because composed vectors have their own levels.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain, zip_longest
from typing import NamedTuple

import torch
from torch import Tensor

from parser.batching.forest import Forest, levels_of
from parser.batching.ragged import Ragged
from parser.replay.batch import Batch
from parser.replay.examples import Examples
from parser.transitions.inventory import UNKNOWN_LABEL
from parser.treebank.vocabulary import Tokens

LENGTH_RATIO = 1.25
"""The ratio of the longest sentence of a shape to that of the previous shape. A larger ratio gives fewer
shapes, and more padding."""
MAX_PADDING = 2.0
"""A batch is not padded to more rows of LSTMs than this multiple of its own."""
EPOCHS = 4
"""Epochs of a run whose batches determine the shapes. A later batch may fit none of them."""


class Shape(NamedTuple):
    """The sizes on which the shapes of a batch's tensors depend, in a single group of sentences."""

    sentences: int
    words: int
    buffer_frames: int
    """The words of the longest sentence, and one frame for the end of the buffer."""
    history_frames: int
    """The largest number of transitions of a sentence."""
    transitions: int
    nodes: tuple[int, ...]
    """The number of nodes in each level of the stack forest."""
    parents: tuple[int, ...]
    """The number of nodes with children in each level."""

    @classmethod
    def of(cls, batch: Batch) -> Shape:
        [buffer], [history] = batch.buffer_tokens, batch.history
        parents = [level.parents.stop - level.parents.start for level in batch.forest.levels]
        return cls(
            sentences=history.shape[1],
            words=batch.tokens.words,
            buffer_frames=len(buffer),
            history_frames=len(history),
            transitions=len(batch.transitions),
            nodes=tuple(here.stop - here.start for here, _ in batch.forest.levels),
            parents=(*parents[1:], 0),
        )

    @classmethod
    def around(cls, shapes: Iterable[Shape]) -> Shape:
        """The smallest shape that holds all of the given shapes."""
        *sizes, nodes, parents = zip(*shapes, strict=True)
        levels = (tuple(map(max, zip_longest(*each, fillvalue=0))) for each in (nodes, parents))
        return cls(*map(max, sizes), *levels)

    @property
    def lstm_rows(self) -> int:
        """The rows over which the LSTMs of stack, buffer and history run."""
        return sum(self.nodes) + self.sentences * (self.buffer_frames + self.history_frames)

    def holds(self, other: Shape) -> bool:
        """Whether a batch of the other shape can be padded to this one."""
        sizes = zip(self[:-2], other[:-2], strict=True)
        nodes = zip_longest(self.nodes, other.nodes, fillvalue=0)
        parents = zip_longest(self.parents, other.parents, fillvalue=0)
        return all(own >= its for own, its in chain(sizes, nodes, parents))


def shapes_of(examples: Examples, batches: Iterable[Tensor]) -> Iterator[Shape]:
    """Yield the shapes of batches without making them. A batch is given by the numbers of its sentences."""
    parent, depth, _ = examples.nodes.values.unbind(1)
    sentence = examples.nodes.row_of_element()
    is_child = parent >= 0
    nodes = _counts(examples, sentence, depth)
    parent_places = (parent + examples.nodes.offsets[sentence])[is_child].unique()
    parents = _counts(examples, sentence[parent_places], depth[parent_places])
    words, transitions = examples.tokens.lengths, examples.steps.lengths
    for rows in batches:
        of_levels = nodes[rows].sum(0)
        levels = int((of_levels > 0).sum())
        yield Shape(
            sentences=len(rows),
            words=int(words[rows].sum()),
            buffer_frames=int(words[rows].max()) + 1,
            history_frames=int(transitions[rows].max()),
            transitions=int(transitions[rows].sum()),
            nodes=tuple(of_levels[:levels].tolist()),
            parents=tuple(parents[rows].sum(0)[:levels].tolist()),
        )


def _counts(examples: Examples, sentence: Tensor, depth: Tensor) -> Tensor:
    """[sentences, levels] The number of nodes of each sentence at each depth.

    sentence, depth: [nodes] those of each node.
    """
    levels = int(examples.nodes.values[:, 1].max()) + 1
    counts = torch.zeros(len(examples), levels, dtype=torch.long)
    return counts.index_put_((sentence, depth), torch.ones_like(depth), accumulate=True)


def shapes_of_epochs(
    examples: Examples, epochs: Iterable[Iterable[Tensor]], max_batch_words: int | None = None
) -> list[Shape]:
    """The common shapes of the batches of `EPOCHS` epochs.

    max_batch_words: shapes with more words, including padding, are left out.
    """
    shapes = common_shapes(shapes_of(examples, chain.from_iterable(epochs)))
    return [
        shape
        for shape in shapes
        if max_batch_words is None or shape.sentences * (shape.buffer_frames - 1) <= max_batch_words
    ]


def common_shapes(shapes: Iterable[Shape]) -> list[Shape]:
    """One shape around all shapes whose longest sentences have a similar length; the shortest first."""
    by_length = defaultdict(list)
    for shape in shapes:
        by_length[math.ceil(math.log(shape.buffer_frames, LENGTH_RATIO))].append(shape)
    return [Shape.around(alike) for _, alike in sorted(by_length.items())]


def fitting(shapes: Iterable[Shape], shape: Shape) -> Shape | None:
    """The first of `shapes` to which a batch of the given shape should be padded; None if there is none."""
    holding = (each for each in shapes if each.holds(shape))
    return next((each for each in holding if each.lstm_rows <= MAX_PADDING * shape.lstm_rows), None)


def padded(batch: Batch, shape: Shape) -> Batch:
    """Pad a batch to a shape. Raises ValueError if the shape is too small.

    batch: on the host, without composition, in a single group.
    """
    own = Shape.of(batch)
    if not shape.holds(own):
        raise ValueError(f"{shape} does not hold {own}")
    [buffer], [history] = batch.buffer_tokens, batch.history
    node = _places_of_nodes(own, shape)

    def table_rows(rows: Tensor) -> Tensor:
        """Table rows, adapted to ROOT and the end of the buffer, which follow the words."""
        return torch.where(rows < own.words, rows, rows + shape.words - own.words)

    def of_steps(values: Tensor, fill: int = 0) -> Tensor:
        return _lengthened(values, shape.transitions, fill)

    def of_words(values: Tensor) -> Tensor:
        return _lengthened(values, shape.words, fill=0)

    def in_frames(rows: Tensor) -> Tensor:
        """Indices into flattened frames, adapted to more columns."""
        return rows // own.sentences * shape.sentences + rows % own.sentences

    node_vectors = torch.zeros(sum(shape.nodes), dtype=torch.long)
    node_vectors[node] = table_rows(batch.node_vectors)
    return replace(
        batch,
        tokens=_padded_tokens(batch.tokens, shape.words),
        heads=of_words(batch.heads),
        labels=of_words(batch.labels),
        buffer_tokens=(
            table_rows(_frames(buffer, shape.buffer_frames, shape.sentences, fill=own.words + 1)),
        ),
        history=(_frames(history, shape.history_frames, shape.sentences, fill=int(history[0, 0])),),
        forest=_padded_forest(batch.forest, shape, node),
        node_vectors=node_vectors,
        transitions=of_steps(batch.transitions),
        legal=of_steps(batch.legal, fill=True),
        optimal_labels=of_steps(batch.optimal_labels, fill=UNKNOWN_LABEL),
        step=of_steps(in_frames(batch.step)),
        top_node=of_steps(node[batch.top_node]),
        top_vector=of_steps(table_rows(batch.top_vector)),
        word_features=of_steps(table_rows(batch.word_features)),
        front=of_steps(batch.front),
        buffer_row=of_steps(in_frames(batch.buffer_row)),
        soft_targets=batch.soft_targets and batch.soft_targets.map(of_steps),
        soft_heads=batch.soft_heads and batch.soft_heads.map(of_words),
    )


def _lengthened(values: Tensor, length: int, fill: int) -> Tensor:
    """[length, ...] Values [n, ...], followed by `fill`."""
    return torch.cat([values, values.new_full((length - len(values), *values.shape[1:]), fill)])


def _frames(block: Tensor, frames: int, sentences: int, fill: int) -> Tensor:
    """[frames, sentences] The block, with `fill` everywhere else."""
    larger = block.new_full((frames, sentences), fill)
    larger[: block.shape[0], : block.shape[1]] = block
    return larger


def _padded_tokens(tokens: Tokens, words: int) -> Tokens:
    """Tokens with padding, which forms an additional sentence."""
    lengths = torch.cat([tokens.lengths, torch.tensor([words - tokens.words])])
    return Tokens(Ragged(_lengthened(tokens.values, words, fill=0), lengths))


def _places_of_nodes(own: Shape, shape: Shape) -> Tensor:
    """[nodes] The new position of each node: each level starts with its original nodes."""
    sizes, new_sizes = torch.tensor(own.nodes), torch.tensor(shape.nodes[: len(own.nodes)])
    shift = (new_sizes - sizes).cumsum(0) - (new_sizes - sizes)
    return torch.arange(int(sizes.sum())) + shift.repeat_interleave(sizes)


def _padded_forest(forest: Forest, shape: Shape, place: Tensor) -> Forest:
    """The padded forest. place: [nodes] see `_places_of_nodes`. A padded node is a child of the first node
    above it."""
    total = sum(shape.nodes)
    parent = torch.zeros(total, dtype=torch.long)
    parent[place] = forest.parent
    is_padding = torch.ones(total, dtype=torch.bool)
    is_padding[place] = False
    position = torch.cat([place[forest.position], is_padding.nonzero().squeeze(1)])
    return Forest(position.argsort(), position, parent, tuple(levels_of(shape.nodes, shape.parents)))
