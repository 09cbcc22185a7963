"""One batch over several processes: each computes the gradients of its sentences, then they are added up.

These are sums over transitions, which are divided once, by the transitions of all. So any number of processes
computes what one computes, also where a process has no sentence of a batch, or computes its part in
microbatches. `DistributedDataParallel` takes the mean over processes, and wants the same number of backward
passes in all of them.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from parser.distributed.process_group import ProcessGroup


def add_up(
    processes: ProcessGroup, network: nn.Module, changed_rows: Mapping[Tensor, Tensor], numbers: Tensor
) -> Tensor:
    """Replace the gradients of a network by their sums over the processes, by one message.

    changed_rows: for some weights, the rows whose gradient can differ from zero in any process; only these
    are sent. numbers: [n] what is added up beside. Returns the sums of the numbers. Raises LostProcessError.
    """
    weights = [weight for weight in network.parameters() if weight.requires_grad]
    parts = [_part(weight, changed_rows.get(weight)).flatten() for weight in weights]
    message = torch.cat([*parts, numbers.to(parts[0].dtype)])
    processes.add_up(message)
    *sums, summed_numbers = message.split([*map(len, parts), len(numbers)])
    for weight, total in zip(weights, sums, strict=True):
        rows = changed_rows.get(weight)
        if rows is None:
            weight.grad = total.view_as(weight)
        else:
            assert weight.grad is not None
            weight.grad.index_copy_(0, rows, total.view(len(rows), -1))
    return summed_numbers


def _part(weight: nn.Parameter, rows: Tensor | None) -> Tensor:
    """What is sent of the gradient of a weight."""
    assert weight.grad is not None
    return weight.grad if rows is None else weight.grad[rows]
