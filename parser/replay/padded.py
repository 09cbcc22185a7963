"""Padding a batch to a given shape, without a change of its loss and its gradients.

Padded transitions are all legal and all optimal, so that their loss and its gradient are exactly 0. Nothing
else reads padded words, frames and nodes.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from parser.batching.forest import Forest, levels_of
from parser.replay.batch import Batch
from parser.replay.shape import Shape
from parser.transitions.inventory import UNKNOWN_LABEL
from parser.treebank.ragged import Ragged
from parser.treebank.tokens import Tokens


def padded(batch: Batch, shape: Shape) -> Batch:
    """On the host, without composition, in a single group. Raises ValueError if the shape is too small."""
    own = Shape.of(batch)
    if not shape.holds(own):
        raise ValueError(f"{shape} does not hold {own}")
    [buffer], [history] = batch.buffer_tokens, batch.history
    node = _places_of_nodes(own, shape)
    end_of_buffer = own.words + 1

    def table_rows(rows: Tensor) -> Tensor:
        """ROOT and the end of the buffer follow the words."""
        return torch.where(rows < own.words, rows, rows + shape.words - own.words)

    def of_steps(values: Tensor, fill: int = 0) -> Tensor:
        return _lengthened(values, shape.transitions, fill)

    def in_frames(rows: Tensor) -> Tensor:
        """Indices in flattened frames that have more columns."""
        return rows // own.sentences * shape.sentences + rows % own.sentences

    node_vectors = torch.zeros(sum(shape.nodes), dtype=torch.long)
    node_vectors[node] = table_rows(batch.node_vectors)
    return replace(
        batch,
        tokens=_padded_tokens(batch.tokens, shape.words),
        buffer_tokens=(
            table_rows(_frames(buffer, shape.buffer_frames, shape.sentences, fill=end_of_buffer)),
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
    )


def _lengthened(values: Tensor, length: int, fill: int) -> Tensor:
    """[length, ...] Values [n, ...], followed by `fill`."""
    return torch.cat([values, values.new_full((length - len(values), *values.shape[1:]), fill)])


def _frames(block: Tensor, frames: int, sentences: int, fill: int) -> Tensor:
    """[frames, sentences] A smaller block, with `fill` everywhere else."""
    larger = block.new_full((frames, sentences), fill)
    larger[: block.shape[0], : block.shape[1]] = block
    return larger


def _padded_tokens(tokens: Tokens, words: int) -> Tokens:
    """The padding is a sentence of its own."""
    lengths = torch.cat([tokens.lengths, torch.tensor([words - tokens.words])])
    return Tokens(Ragged(_lengthened(tokens.values, words, fill=0), lengths))


def _places_of_nodes(own: Shape, shape: Shape) -> Tensor:
    """[nodes] The new position of each node: each level begins with its own nodes."""
    sizes, new_sizes = torch.tensor(own.nodes), torch.tensor(shape.nodes[: len(own.nodes)])
    shift = (new_sizes - sizes).cumsum(0) - (new_sizes - sizes)
    return torch.arange(int(sizes.sum())) + shift.repeat_interleave(sizes)


def _padded_forest(forest: Forest, shape: Shape, place: Tensor) -> Forest:
    """place: [nodes] as `_places_of_nodes`. A padded node is a child of the first node above it."""
    total = sum(shape.nodes)
    parent = torch.zeros(total, dtype=torch.long)
    parent[place] = forest.parent
    is_padding = torch.ones(total, dtype=torch.bool)
    is_padding[place] = False
    position = torch.cat([place[forest.position], is_padding.nonzero().squeeze(1)])
    return Forest(position.argsort(), position, parent, tuple(levels_of(shape.nodes, shape.parents)))
