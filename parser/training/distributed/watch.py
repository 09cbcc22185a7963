"""Noticing that a process is lost while the others wait for it on their GPUs.

NCCL adds up on the device, after the call has returned. If a process dies, the kernels of the others wait for
it for ever, and so do their hosts as soon as they read from the device: not even a signal is handled then.
Therefore a thread of each process calls the others by Gloo, whose connections close with a process. If a call
fails, the thread aborts NCCL. Its kernels end, and the host goes on, but with arbitrary sums.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from threading import Event, Thread
from typing import Any, Protocol

import torch
import torch.distributed as torch_distributed

from parser.training.distributed.process_group import LostProcessError, ProcessGroup

SECONDS_BETWEEN_CALLS = 1.0
PATIENCE = timedelta(minutes=5)
"""How long a call waits for an answer, for example from a machine without power. The death of a process is
noticed at once."""


FAILS, STAYS, LEAVES = -1, 0, 1
"""What a process says in a call."""


class Backend(Protocol):
    """What adds up on the device."""

    def abort(self) -> None:
        """End what waits for other processes. Called in another thread than the one that waits."""


class Watch:
    """Calls the other processes in a thread, and aborts the backend if one of them does not answer."""

    def __init__(self, backend: Backend):
        """All processes must create their watches."""
        self._backend, self._failure = backend, ""
        self._group = torch_distributed.new_group(backend="gloo", timeout=PATIENCE)
        self._says, self._has_ended = STAYS, Event()
        self._thread = Thread(target=self._call_others, name="watch", daemon=True)
        self._thread.start()

    def refuse_if_lost(self) -> None:
        """Raises LostProcessError if what has been read from the device may follow from arbitrary sums."""
        if self._failure:
            raise LostProcessError(self._failure)

    def end(self, says: int) -> None:
        """End the thread. says: LEAVES if all processes end their watches, FAILS if only this one does."""
        self._says = says
        self._has_ended.set()
        self._thread.join()

    def _call_others(self) -> None:
        try:
            while (least := self._least_said()) == STAYS:
                self._has_ended.wait(SECONDS_BETWEEN_CALLS)
            if least == FAILS and self._says != FAILS:
                self._abort("another process has failed")
        except RuntimeError as error:
            self._abort(str(error).partition("\n")[0])

    def _least_said(self) -> int:
        """What is said by the process that says the least, after all have called."""
        said = torch.tensor([self._says], device="cpu")
        torch_distributed.all_reduce(said, torch_distributed.ReduceOp.MIN, self._group)
        return int(said)

    def _abort(self, failure: str) -> None:
        self._failure = failure  # before any sum becomes arbitrary
        self._backend.abort()


@contextmanager
def watched(processes: ProcessGroup, device: torch.device) -> Iterator[Watch | None]:
    """Watch the processes that train together on GPUs. Yields None if the sums are made by the host."""
    if processes.count == 1 or device.type != "cuda":
        yield None
        return
    group: Any = torch_distributed.group.WORLD
    with watch_over(group._get_backend(device)) as watch:
        yield watch


@contextmanager
def watch_over(backend: Backend) -> Iterator[Watch]:
    """Watch the processes in the block, which all of them enter."""
    watch = Watch(backend)
    try:
        yield watch
    except BaseException:
        watch.end(FAILS)
        raise
    watch.end(LEAVES)
