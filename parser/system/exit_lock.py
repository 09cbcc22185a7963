"""A lock with which the interpreter ends between computations of other threads, not within one."""

from __future__ import annotations

import os
from threading import Event, Lock, get_ident
from types import TracebackType
from weakref import finalize


class ExitLock:
    """A lock that threads hold while they compute.

    While the interpreter ends, it stops each daemon thread that returns to Python. Within PyTorch this aborts
    the process (`terminate called`). So the thread that ends the interpreter waits until nobody computes;
    then the lock is closed for all other threads, which wait forever.
    """

    def __init__(self, owner: object):
        """owner: whose threads compute. If it is deleted before the exit, the lock closes then."""
        self._lock = Lock()
        self._ending: int | None = None
        """The thread that ends the interpreter."""
        process = os.getpid()

        def close() -> None:
            if os.getpid() == process:  # in a forked process, the lock may be held by none
                self._ending = get_ident()
                with self._lock:
                    pass

        finalize(owner, close)

    def __enter__(self) -> None:
        self._lock.acquire()
        if self._ending not in (None, get_ident()):
            self._lock.release()
            Event().wait()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()
