"""The execution order of nodes in a batch of sentences, by cumulative sums instead of sorting.

Each node has a class. Nodes run class by class, and within a class sentence by sentence. So a node's place
is the start of its class, plus the nodes of the class in earlier sentences, plus its rank: the nodes of the
class before it in its own sentence. The ranks, and the number of nodes of each class in a sentence, do not
depend on the other sentences of a batch, and are computed only once.

In a forest, the class is twice the level, plus 1 for nodes without children. So the levels follow each other,
and the nodes with children come first.
"""

from __future__ import annotations

import torch
from torch import Tensor

from parser.batching.ragged import Ragged


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
    own_classes = (
        ((counts > 0) * torch.arange(1, classes + 1)).amax(1) if classes else torch.zeros_like(lengths)
    )
    exists = torch.arange(classes) < own_classes[:, None]  # [sentences, classes]
    return rank, Ragged(counts[exists], own_classes)


def counts_of(counts: Ragged, rows: Tensor, classes: int) -> Tensor:
    """[batch, classes] The number of nodes of each class. rows: [batch], -1 for no sentence."""
    numbers = torch.arange(classes, device=rows.device)
    own_classes = counts.lengths[rows].masked_fill(rows < 0, 0)
    place = (counts.offsets[rows][:, None] + numbers).clamp(max=len(counts.values) - 1)
    return counts.values[place].masked_fill(numbers >= own_classes[:, None], 0)  # [batch, classes]


def places(counts: Tensor, starts: Tensor, sentence: Tensor, node_class: Tensor, rank: Tensor) -> Tensor:
    """[nodes] The place of each node in the execution order.

    counts: [batch, classes], see `counts_of`; starts: [classes], the first place of each class; sentence,
    node_class, rank: [nodes] those of each node.
    """
    first = counts.cumsum(0) - counts + starts  # [batch, classes]
    return first.flatten()[sentence * counts.shape[1] + node_class] + rank
