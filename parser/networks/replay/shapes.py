"""The sizes of batches, and the few common shapes to which batches are padded for CUDA graphs.

Padding changes neither loss nor gradients: padded transitions are all legal and all optimal, so that their
loss and its gradient are exactly 0, and nothing else reads padded words, frames and nodes. Only batches
without composition are padded, because composed vectors have their own levels.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from itertools import chain, zip_longest
from typing import NamedTuple

from parser.batching.ragged import Padding

LENGTH_RATIO = 1.25
"""The ratio of the longest sentence of a shape to that of the previous shape. A larger ratio gives fewer
shapes, and more padding."""
MAX_PADDING = 2.0
"""A batch is not padded to more rows of LSTMs than this multiple of its own."""
EPOCHS = 4
"""Epochs of a run whose batches determine the shapes. A later batch may fit none of them."""


class LevelSizes(NamedTuple):
    """The sizes of the levels of a forest."""

    nodes: tuple[int, ...]
    """The number of nodes in each level."""
    parents: tuple[int, ...]
    """The number of nodes with children in each level."""

    @classmethod
    def of(cls, counts: list[int]) -> LevelSizes:
        """counts: the number of nodes of each class, see `flattened`."""
        return cls(tuple(map(sum, zip(counts[::2], counts[1::2], strict=True))), tuple(counts[::2]))

    @classmethod
    def around(cls, sizes: Iterable[LevelSizes]) -> LevelSizes:
        """The smallest sizes that hold all of the given ones."""
        return cls(*(tuple(map(max, zip_longest(*each, fillvalue=0))) for each in zip(*sizes, strict=True)))

    def holds(self, other: LevelSizes) -> bool:
        """Whether each level is at least as large as that of `other`."""
        pairs = (zip_longest(*both, fillvalue=0) for both in zip(self, other, strict=True))
        return all(mine >= its for mine, its in chain.from_iterable(pairs))


class CompositionSizes(NamedTuple):
    """The sizes of what only parsers with composition have."""

    levels: tuple[int, ...]
    """The number of composed vectors of each level."""
    buffer: LevelSizes
    """Of the forest of buffer states."""


class Shape(NamedTuple):
    """The sizes on which the shapes of a batch's tensors depend."""

    words: int
    transitions: int
    buffers: Padding
    """Of the words of each sentence, and one frame for the end of the buffer."""
    histories: Padding
    """Of the transitions of each sentence."""
    stack: LevelSizes
    compositions: CompositionSizes | None = None

    @classmethod
    def around(cls, shapes: Iterable[Shape]) -> Shape:
        """The smallest shape that holds all of the given ones, which have neither groups nor composition."""
        words, transitions, *paddings, stack, _ = zip(*shapes, strict=True)
        buffers, histories = (
            tuple(map(max, zip(*(padding.shapes[0] for padding in each), strict=True))) for each in paddings
        )
        return cls(
            max(words),
            max(transitions),
            Padding(buffers[1], (buffers,)),
            Padding(histories[1], (histories,)),
            LevelSizes.around(stack),
        )

    @property
    def sentences(self) -> int:
        return sum(sentences for _, sentences in self.buffers.shapes)

    @property
    def longest(self) -> int:
        """The words of the longest sentence."""
        return max(frames for frames, _ in self.buffers.shapes) - 1

    @property
    def lstm_rows(self) -> int:
        """The rows over which the LSTMs of stack, buffer and history run."""
        return sum(self.stack.nodes) + self.buffers.rows + self.histories.rows

    def holds(self, other: Shape) -> bool:
        """Whether a batch of the other shape can be padded to this one. Both are without groups."""
        sizes = zip(self._sizes(), other._sizes(), strict=True)
        return all(mine >= its for mine, its in sizes) and self.stack.holds(other.stack)

    def _sizes(self) -> tuple[int, ...]:
        return self.words, self.transitions, *self.buffers.shapes[0], *self.histories.shapes[0]


def common_shapes(shapes: Iterable[Shape], max_batch_words: int | None = None) -> list[Shape]:
    """One shape around all shapes whose longest sentences have a similar length; the shortest first.

    shapes: those of the batches of `EPOCHS` epochs. max_batch_words: common shapes with more words, including
    padding, are left out.
    """
    by_length = defaultdict(list)
    for shape in shapes:
        by_length[math.ceil(math.log(shape.longest + 1, LENGTH_RATIO))].append(shape)
    around = (Shape.around(alike) for _, alike in sorted(by_length.items()))
    return [
        shape
        for shape in around
        if max_batch_words is None or shape.sentences * shape.longest <= max_batch_words
    ]


def fitting(shapes: Iterable[Shape], shape: Shape) -> Shape | None:
    """The first of `shapes` to which a batch of the given shape should be padded; None if there is none."""
    holding = (each for each in shapes if each.holds(shape))
    return next((each for each in holding if each.lstm_rows <= MAX_PADDING * shape.lstm_rows), None)
