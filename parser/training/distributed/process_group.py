"""The processes that train together, and their communication by `torch.distributed`.

Usually there is only one process, and nothing is sent."""

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
    """Another process has ended or cannot be reached. `saved` says what has been saved since."""

    def __init__(self, message: str, saved: str = ""):
        super().__init__(message)
        self.saved = saved


@dataclass(frozen=True)
class ProcessGroup:
    """The group of processes, as seen by one of them.

    All processes must call a method that communicates; it raises LostProcessError if one of them has ended.
    """

    rank: int = 0
    count: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this is the process that writes files and messages."""
        return self.rank == 0

    def share(self, items: Sequence[Value]) -> Sequence[Value]:
        """The items that this process is to work on."""
        return items[self.rank :: self.count] if self.count > 1 else items

    def deal(self, rows: Tensor, lengths: Tensor) -> Tensor:
        """The sentences of a batch for this process, dealt so that all processes have about equal work.

        rows: [batch] numbers of sentences; lengths: [sentences] in words.
        """
        if self.count == 1:
            return rows
        by_length = rows[lengths[rows].argsort(descending=True, stable=True)]
        place = torch.arange(len(rows))
        # Back and forth, 0 1 2 2 1 0 0 1 2 ..., or the first process would always get the longer sentences.
        there = place % (2 * self.count)
        return by_length[torch.minimum(there, 2 * self.count - 1 - there) == self.rank]

    def add_up(self, tensor: Tensor) -> None:
        """Replace a tensor by its sum over the processes, which is bitwise identical in all of them."""
        if self.count > 1:
            with _reachable():
                torch_distributed.all_reduce(tensor)

    def greatest(self, number: int) -> int:
        """The greatest of the processes' numbers; all wait until the last process has made this call."""
        if self.count == 1:
            return number
        numbers = torch.tensor([number], device="cpu")
        with _reachable():
            torch_distributed.all_reduce(numbers, torch_distributed.ReduceOp.MAX)
        return int(numbers)

    def gathered(self, value: Value) -> list[Value]:
        """The values of all processes. They must trust each other, since objects are unpickled."""
        if self.count == 1:
            return [value]
        values: list[Any] = [None] * self.count
        with _reachable():
            torch_distributed.all_gather_object(values, value)
        return values

    def from_first(self, value: Value | None) -> Value:
        """The value of the first process; the other processes wait for it."""
        values: list[Any] = [value]
        if self.count > 1:
            with _reachable():
                torch_distributed.broadcast_object_list(values, 0, device=torch.device("cpu"))
        found: Value = values[0]
        return found

    def wait_for_end_of_first(self) -> NoReturn:
        """Wait until the first process, which reports the error, has ended; raises LostProcessError then."""
        self.greatest(0)
        raise AssertionError("the first process goes on")

    @contextmanager
    def first_before_others(self) -> Iterator[None]:
        """Run the block in the first process before the others, which can use the files that it writes."""
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
    except RuntimeError as error:  # the connection was closed, or there was no answer
        raise LostProcessError(str(error).partition("\n")[0]) from error


def sum_gradients(
    processes: ProcessGroup, network: nn.Module, changed_rows: Mapping[Tensor, Tensor], numbers: Tensor
) -> Tensor:
    """Replace the gradients of a network by their sums over the processes, in one message.

    Each process has the gradients of its sentences, as sums over transitions; later, they are divided once by
    the number of transitions in all processes. So any number of processes computes the same as a single one,
    even if a process has no sentence of a batch, or computes its part in microbatches. In contrast,
    `DistributedDataParallel` takes the mean over processes, and needs equally many backward passes in each.

    changed_rows: for some weights, the rows whose gradient can differ from zero in any process; only these
    are sent. numbers: [n] additional numbers to sum. Returns the sums of these. Raises LostProcessError.
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
    """The part of a weight's gradient that is sent."""
    assert weight.grad is not None
    return weight.grad if rows is None else weight.grad[rows]
