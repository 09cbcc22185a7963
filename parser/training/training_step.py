"""What a training step does with the network: forward, backward, normalise, clip, update, average.

`train_step` in `epoch.py` does this with the batches of a training, and the speed harness measures it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import reduce

import torch
from torch import Tensor
from torch.optim import Optimizer

from parser.networks.loss import BatchLoss
from parser.networks.replay.batch import Batch
from parser.networks.stack_parser import StackParser
from parser.training.optimizer import MovingAverage
from parser.transitions.inventory import Inventory

Phase = Callable[[str], AbstractContextManager[object]]
"""`with phase("forward"): ...` marks a part of a step so that it can be measured."""


def unmeasured(phase: str) -> AbstractContextManager[object]:
    return nullcontext()


@dataclass(frozen=True)
class TrainingStep:
    network: StackParser
    inventory: Inventory
    optimizer: Optimizer
    max_grad_norm: float
    average: MovingAverage[StackParser] | None = None
    """The moving average of the network's weights."""
    phase: Phase = unmeasured
    forward: Callable[[Batch, Inventory], BatchLoss] | None = None
    """Computes the loss of a microbatch. Default: the network."""

    @property
    def device(self) -> torch.device:
        return self.inventory.kind.device

    def gradients(self, microbatches: Iterable[Batch]) -> tuple[Tensor, int]:
        """Compute the gradients of the mean loss per transition, accumulated over the microbatches.

        Returns the sum of the transitions' losses (a scalar on the device) and the number of transitions.
        """
        loss, transitions = self.forward_backward(microbatches)
        self.normalize_gradients(transitions)
        return loss, transitions

    def forward_backward(self, microbatches: Iterable[Batch]) -> tuple[Tensor, int]:
        """Like `gradients`, but for the sum of the transitions' losses.

        A weight that no sentence uses gets a gradient of zeros.
        """
        self.network.zero_grad()
        losses: list[Tensor] = []
        transitions = 0
        for batch in microbatches:
            losses.append(self.add_gradients(batch))
            transitions += len(batch.transitions)
            del batch  # free its memory before the next batch is made
        for weight in self.network.parameters():
            if weight.requires_grad and weight.grad is None:
                weight.grad = torch.zeros_like(weight)
        nothing = [] if losses else [torch.zeros((), device=self.device)]
        return reduce(torch.add, losses + nothing), transitions

    def add_gradients(self, batch: Batch) -> Tensor:
        """Add the gradients of a microbatch; returns the sum of its transitions' losses."""
        compute = self.forward or self.network
        with self.phase("forward"):
            loss = compute(batch, self.inventory)
        with self.phase("backward"):
            loss.total.backward()
        return loss.transitions.detach()

    def normalize_gradients(self, transitions: int | Tensor) -> None:
        """Divide the summed gradients by the number of transitions, a scalar."""
        with self.phase("backward"):
            gradients = [weight.grad for weight in self.network.parameters() if weight.grad is not None]
            torch._foreach_div_(gradients, transitions)

    def update(self) -> Tensor:
        """Clip the gradients, update the weights and their average; returns the norm before clipping."""
        with self.phase("update"):
            weights = [weight for group in self.optimizer.param_groups for weight in group["params"]]
            norm = torch.nn.utils.clip_grad_norm_(weights, self.max_grad_norm)
            self.optimizer.step()
            if self.average:
                self.average.update()
        return norm
