"""A Tree-LSTM batched by hand, depth by depth, whose cell is compiled by PyTorch, once for all depths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from parser.speed.tasks.tree_lstm.by_depth import loss_by_depth
from parser.speed.tasks.tree_lstm.modules import Branch
from parser.speed.tasks.tree_lstm.network import BinaryTree, TreeLSTM


def compiled_loss(network: TreeLSTM) -> Callable[[Sequence[BinaryTree]], Tensor]:
    """Return `loss_by_depth` for the network, with a compiled cell. PyTorch compiles it when it is called.

    The loop over depths is not compiled: its length differs by batch, so every length would be compiled.
    """
    branch = Branch(network)

    def parents(left: Tensor, right: Tensor) -> Tensor:
        return torch.cat(branch(*left.chunk(2, dim=1), *right.chunk(2, dim=1)), dim=1)

    return partial(loss_by_depth, network, parents=torch.compile(parents, dynamic=True))
