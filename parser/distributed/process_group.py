"""The processes that train together, and what they tell each other by `torch.distributed`.

One process alone is the usual case; then nothing is sent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

import torch
import torch.distributed as torch_distributed
from torch import Tensor, nn

Value = TypeVar("Value")


class LostProcessError(Exception):
    """Another process has ended, or cannot be reached. `saved` says what has been saved since."""

    def __init__(self, message: str, saved: str = ""):
        super().__init__(message)
        self.saved = saved


@dataclass(frozen=True)
class ProcessGroup:
    """All processes call a method that sends; it raises LostProcessError if one of them has ended."""

    rank: int = 0
    count: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this process is the one that writes files and messages."""
        return self.rank == 0

    def share(self, items: Sequence[Value]) -> Sequence[Value]:
        """Those items that are for this process to work on."""
        return items[self.rank :: self.count] if self.count > 1 else items

    def deal(self, rows: Tensor, lengths: Tensor) -> Tensor:
        """Those sentences of a batch that are for this process, so that all have about equal work.

        rows: [batch] numbers of sentences; lengths: [sentences] in words.
        """
        if self.count == 1:
            return rows
        by_length = rows[lengths[rows].argsort(descending=True, stable=True)]
        place = torch.arange(len(rows))
        # There and back: 0 1 2 2 1 0 0 1 2 ..., or the first one would always have the longer sentences.
        there = place % (2 * self.count)
        return by_length[torch.minimum(there, 2 * self.count - 1 - there) == self.rank]

    def add_up(self, tensor: Tensor) -> None:
        """Replace a tensor by its sum over the processes, which is equal to the bit in all of them."""
        if self.count > 1:
            with _reachable():
                torch_distributed.all_reduce(tensor)

    def greatest(self, number: int) -> int:
        """The greatest number of a process; all wait until the last one has come here."""
        if self.count == 1:
            return number
        numbers = torch.tensor([number], device="cpu")
        with _reachable():
            torch_distributed.all_reduce(numbers, torch_distributed.ReduceOp.MAX)
        return int(numbers)

    def gathered(self, value: Value) -> list[Value]:
        """The value of each process. All of them must trust each other, since objects are unpickled."""
        if self.count == 1:
            return [value]
        values: list[Any] = [None] * self.count
        with _reachable():
            torch_distributed.all_gather_object(values, value)
        return values

    def from_first(self, value: Value | None) -> Value:
        """The value of the first process, for which the others wait."""
        values: list[Any] = [value]
        if self.count > 1:
            with _reachable():
                torch_distributed.broadcast_object_list(values, 0, device=torch.device("cpu"))
        found: Value = values[0]
        return found

    def wait_for_end_of_first(self) -> NoReturn:
        """Raises LostProcessError when the first process, which says why, has ended."""
        self.greatest(0)
        raise AssertionError("the first process goes on")

    @contextmanager
    def first_before_others(self) -> Iterator[None]:
        """The first process runs the block before the others do, which may use what it leaves on the disk."""
        if not self.is_first:
            self.greatest(0)
        yield
        if self.is_first:
            self.greatest(0)


ALONE = ProcessGroup()


@contextmanager
def _reachable() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:  # the connection is closed, or no answer has come
        raise LostProcessError(str(error).partition("\n")[0]) from error


def sum_gradients(
    processes: ProcessGroup, network: nn.Module, changed_rows: Mapping[Tensor, Tensor], numbers: Tensor
) -> Tensor:
    """Replace the gradients of a network by their sums over the processes, by one message.

    Each process has the gradients of its sentences, as sums over transitions, which are divided once, by the
    transitions of all. So any number of processes computes what one computes, also where a process has no
    sentence of a batch, or computes its part in microbatches. `DistributedDataParallel` takes the mean over
    processes, and wants the same number of backward passes in all of them.

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
