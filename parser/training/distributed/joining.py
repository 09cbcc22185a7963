"""Joining the processes started by torchrun or the launcher, and ending all of them with one message."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from datetime import timedelta

import torch
import torch.distributed as torch_distributed
from torch.distributed import Store, TCPStore

from parser.system.interruption import ignore_signals, interruptible
from parser.training.distributed.launcher import LISTENER, WORD, is_one_of_several, lost_process
from parser.training.distributed.process_group import LostProcessError, ProcessGroup

PATIENCE = timedelta(days=1)
"""How long a process waits for another one. The first may train a tokenizer for hours. If a process dies,
this is noticed at once, because its connection is closed; on GPUs by `watch.py`."""
FAILURES = "parser/failures"
"""Key in the store: the number of processes that have failed."""


@contextmanager
def join_processes(exit_code: Callable[[BaseException], int]) -> Iterator[ProcessGroup]:
    """The group of the processes of a command that was started several times, or of this process alone.

    Only the first process writes to standard output. If processes fail, the first to fail raises its error,
    and the others raise SystemExit. A signal raises Interrupted once all processes have joined; earlier, it
    kills the process. exit_code: returns the exit code for an error.
    """
    if not is_one_of_several():
        yield ProcessGroup()
        return
    # PyTorch would kill this process when NCCL loses another one, before anything is saved; see `watch.py`.
    os.environ.setdefault("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0")
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
        ignore_signals()  # the launcher sends one after another process ends; this one may have to report
        if not _is_to_tell(error, store):
            sys.exit(exit_code(error))
        if isinstance(error, LostProcessError):
            raise ValueError(f"{lost_process(count)}{error.saved and f'; {error.saved}'}") from error
        raise
    torch_distributed.destroy_process_group()


def own_device(device: torch.device) -> torch.device:
    """The GPU of this process, one per process on a machine; `device` if this is the CPU or the only process.

    Raises ValueError if there are too few GPUs.
    """
    if device.type != "cuda" or not is_one_of_several():
        return device
    number, count = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()
    if number >= count:
        raise ValueError(f"{number + 1} processes on a machine with {count} GPUs: start one for each GPU")
    torch.cuda.set_device(number)
    return torch.device("cuda", number)


def _backend() -> str:
    """Gloo for tensors on the CPU, NCCL for tensors on GPUs."""
    has_gpus = torch.cuda.is_available() and torch_distributed.is_nccl_available()
    return "cpu:gloo,cuda:nccl" if has_gpus else "gloo"


def _store(rank: int, count: int) -> Store:
    if WORD not in os.environ:  # started by torchrun
        store, _, _ = next(iter(torch_distributed.rendezvous("env://", timeout=PATIENCE)))
        return store
    listener = None if rank else int(os.environ[LISTENER])
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    return TCPStore(host, port, count, not rank, PATIENCE, master_listen_fd=listener)


def _is_to_tell(error: BaseException, store: Store) -> bool:
    """Whether this process has to report the error. The launcher, if there is one, reports interruptions."""
    if WORD in os.environ:
        return not isinstance(error, KeyboardInterrupt) and bool(os.read(int(os.environ[WORD]), 1))
    try:
        return store.add(FAILURES, 1) == 1
    except RuntimeError:  # the machine with the store is gone
        return True
