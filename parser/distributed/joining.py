"""Joining the processes that torchrun has started, and ending all of them with one message."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from datetime import timedelta

import torch
import torch.distributed as torch_distributed
from torch.distributed import Store

from parser.distributed.process_group import LostProcessError, ProcessGroup

PATIENCE = timedelta(days=1)
"""For which a process waits for another one. The first may train a tokenizer for hours; a death is noticed at
once, since it closes the connection."""
FAILURES = "parser/failures"
"""In the store: how many processes have failed."""


@contextmanager
def joined(exit_code: Callable[[BaseException], int]) -> Iterator[ProcessGroup]:
    """The processes of a command that torchrun has started several times, or this one alone.

    Only the first process writes to standard output. Of the processes that fail, the one that fails first
    raises its error, and the others SystemExit. exit_code: that of an error.
    """
    if not is_one_of_several():
        yield ProcessGroup()
        return
    store, rank, count = next(iter(torch_distributed.rendezvous("env://", timeout=PATIENCE)))
    try:
        torch_distributed.init_process_group(
            _backend(), store=store, rank=rank, world_size=count, timeout=PATIENCE
        )
        with ExitStack() as stack:
            if rank:
                stack.enter_context(redirect_stdout(stack.enter_context(open(os.devnull, "w"))))
            yield ProcessGroup(rank, count)
    except (Exception, KeyboardInterrupt) as error:
        if not _is_first_failure(store):
            sys.exit(exit_code(error))
        if isinstance(error, LostProcessError):
            raise ValueError(_of_loss(count, error.saved)) from error
        raise
    torch_distributed.destroy_process_group()


def is_one_of_several() -> bool:
    """Whether torchrun has started this process, and others beside it."""
    return torch_distributed.is_torchelastic_launched() and int(os.environ["WORLD_SIZE"]) > 1


def own_device(device: torch.device) -> torch.device:
    """The GPU of this process, one for each process on a machine; `device` if that is a CPU.

    Raises ValueError if there are not enough.
    """
    if device.type != "cuda" or not is_one_of_several():
        return device
    number, count = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()
    if number >= count:
        raise ValueError(f"{number + 1} processes on a machine with {count} GPUs: start one for each GPU")
    torch.cuda.set_device(number)
    return torch.device("cuda", number)


def _backend() -> str:
    """Gloo for tensors on the CPU, NCCL for those on GPUs."""
    has_gpus = torch.cuda.is_available() and torch_distributed.is_nccl_available()
    return "cpu:gloo,cuda:nccl" if has_gpus else "gloo"


def _is_first_failure(store: Store) -> bool:
    try:
        return store.add(FAILURES, 1) == 1
    except RuntimeError:  # the machine with the store is gone
        return True


def _of_loss(count: int, saved: str) -> str:
    return (
        f"one of the {count} processes has ended without a message; it may have been killed because memory "
        f"ran out{saved and f'; {saved}'}"
    )
