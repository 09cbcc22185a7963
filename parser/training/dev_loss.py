"""The loss on the dev set."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from parser.batching.microbatches import in_microbatches
from parser.batching.padding import group_size
from parser.distributed.process_group import ALONE, ProcessGroup
from parser.parsing.model import Model
from parser.replay.examples import Examples
from parser.treebank.batches import batches_by_length


@torch.inference_mode()
def mean_loss(model: Model, examples: Examples, processes: ProcessGroup = ALONE) -> float:
    """The mean loss of a transition, without dropout; nan if there are no examples.

    Each of the processes computes the loss of some batches.
    """
    model.network.eval()
    if not len(examples):
        return float("nan")
    lengths = examples.tokens.lengths

    def summed(microbatches: Sequence[Tensor]) -> Tensor:
        return torch.stack([_loss_and_steps(model, examples, part) for part in microbatches]).sum(0)  # [2]

    batches = batches_by_length(lengths)
    by_batch = [in_microbatches(summed, rows, lengths) for rows in processes.share(batches)]
    sums = torch.stack([*by_batch, torch.zeros(2, device=model.device)]).sum(0)  # [2]
    processes.add_up(sums)
    loss, steps = sums.tolist()
    return loss / steps


def _loss_and_steps(model: Model, examples: Examples, rows: Tensor) -> Tensor:
    """[2] The summed loss of the sentences `rows`, and their number of transitions."""
    batch = examples.batch(rows, group_size(model.device)).to(model.device)
    loss = model.network(batch, model.inventory).transitions
    return torch.stack([loss, torch.full_like(loss, len(batch.transitions))])
