"""Joining the processes that torchrun or the launcher started, and ending all of them with one message."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from datetime import timedelta

import torch
import torch.distributed as torch_distributed
from torch.distributed import Store, TCPStore

from parser.distributed.launcher import LISTENER, WORD, is_one_of_several, lost_process
from parser.distributed.process_group import LostProcessError, ProcessGroup
from parser.system.interruption import ignore_signals, interruptible

PATIENCE = timedelta(days=1)
"""For which a process waits for another one. The first may train a tokenizer for hours; a death is noticed at
once, since it closes the connection."""
FAILURES = "parser/failures"
"""In the store: how many processes have failed."""


@contextmanager
def join_processes(exit_code: Callable[[BaseException], int]) -> Iterator[ProcessGroup]:
    """The processes of a command that was started several times, or this one alone.

    Only the first process writes to standard output. Of the processes that fail, the one that fails first
    raises its error, and the others SystemExit. A signal raises Interrupted when all are there, and kills
    before. exit_code: that of an error.
    """
    if not is_one_of_several():
        yield ProcessGroup()
        return
    rank, count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store = _store(rank, count)
    try:
        torch_distributed.init_process_group(
            _backend(), store=store, rank=rank, world_size=count, timeout=PATIENCE
        )
        with interruptible(), ExitStack() as stack:
            if rank:
                stack.enter_context(redirect_stdout(stack.enter_context(open(os.devnull, "w"))))
            yield ProcessGroup(rank, count)
    except (Exception, KeyboardInterrupt) as error:
        ignore_signals()  # the launcher sends one when another process has ended, but this one may be to tell
        if not _is_to_tell(error, store):
            sys.exit(exit_code(error))
        if isinstance(error, LostProcessError):
            raise ValueError(f"{lost_process(count)}{error.saved and f'; {error.saved}'}") from error
        raise
    torch_distributed.destroy_process_group()


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


def _store(rank: int, count: int) -> Store:
    if WORD not in os.environ:  # torchrun's
        store, _, _ = next(iter(torch_distributed.rendezvous("env://", timeout=PATIENCE)))
        return store
    listener = None if rank else int(os.environ[LISTENER])
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    return TCPStore(host, port, count, not rank, PATIENCE, master_listen_fd=listener)


def _is_to_tell(error: BaseException, store: Store) -> bool:
    """Whether no other process tells what is wrong. The launcher, if there is one, tells of interruptions."""
    if WORD in os.environ:
        return not isinstance(error, KeyboardInterrupt) and bool(os.read(int(os.environ[WORD]), 1))
    try:
        return store.add(FAILURES, 1) == 1
    except RuntimeError:  # the machine with the store is gone
        return True
