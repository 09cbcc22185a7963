"""CUDA graphs: repeated work of a GPU costs the host one launch instead of thousands."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch

from parser.batching.device import one_memory_error
from parser.system.console import warn
from parser.system.machine import is_of_memory


class LostGeneratorError(Exception):
    """After a failed capture, PyTorch refuses to draw random numbers on the GPU in this process."""


@dataclass
class Captures:
    """What a failed capture has left behind. It spoils PyTorch's state of the process, not just one graph."""

    failed: torch.cuda.CUDAGraph | None = None
    """The graph whose capture has failed, not for lack of memory. Nothing is captured from then on. It is
    kept, because PyTorch's allocator of pinned memory goes on to ask it."""
    generator_error: str | None = None
    """Why PyTorch draws no random numbers on the GPU any more; None if it does."""
    are_wanted: bool = True
    """False while nothing is to be captured."""
    has_warned_of_memory: bool = False

    @property
    def have_failed(self) -> bool:
        return self.failed is not None


@contextmanager
def captures(wanted: bool) -> Iterator[None]:
    """In the block, nothing is captured unless wanted."""
    before, of_process.are_wanted = of_process.are_wanted, wanted
    try:
        yield
    finally:
        of_process.are_wanted = before


of_process = Captures()
"""The state of this process. A test with another simulated device has another one."""


def refuse_without_generator() -> None:
    """Raises LostGeneratorError if PyTorch draws no random numbers on the GPU any more."""
    if of_process.generator_error:
        raise LostGeneratorError(
            "a CUDA graph could not be captured, and since then PyTorch draws no random numbers on the GPU: "
            f"{of_process.generator_error}"
        )


class CudaGraphs:
    """Captures graphs on one device, until a capture fails in this process.

    The graphs share memory: each overwrites the tensors that other graphs have created. Results that must
    outlive the work therefore belong in tensors that exist before it, which the work changes in place.
    """

    def __init__(self, device: torch.device):
        self._device = device
        self._by_work: WeakKeyDictionary[GraphedWork, torch.cuda.CUDAGraph] = WeakKeyDictionary()
        self._pool: Any = None
        """The memory that all graphs share; None if there is no graph."""
        self._stream: torch.cuda.Stream | None = None
        """The stream of all captures: the memory of one stream is not reused in another."""
        self._too_large: set[Hashable] = set()
        """The shapes for which the memory was too small."""

    @property
    def failed(self) -> bool:
        """Whether a graph could not be captured."""
        return of_process.have_failed or bool(self._too_large)

    def may_have(self, shape: Hashable) -> bool:
        """Whether work of a shape can have a graph, as far as is known."""
        allowed = of_process.are_wanted and not of_process.have_failed
        return allowed and shape not in self._too_large

    @property
    def hold_memory(self) -> bool:
        """Whether there are graphs, whose memory `free` would free."""
        return bool(self._by_work)

    def replay(self, owner: GraphedWork, work: Callable[[], None]) -> bool:
        """Do the work by the graph of `owner`, for which the work is captured if it has none yet.

        Returns False if there can be no graph. Raises torch.OutOfMemoryError, and LostGeneratorError if a
        capture fails and PyTorch does not recover. In all these cases nothing has been done.
        """
        if of_process.have_failed:
            self._drop()  # the capture of another owner may have failed
        if not self.may_have(owner.shape):
            return False
        if owner not in self._by_work and not self._added(owner, work):
            return False
        self._by_work[owner].replay()
        return True

    def _added(self, owner: GraphedWork, work: Callable[[], None]) -> bool:
        """Whether the work could be captured."""
        graph = torch.cuda.CUDAGraph()
        self._pool = self._pool or torch.cuda.graph_pool_handle()
        try:
            self._capture(graph, work, self._pool)
        except RuntimeError as error:
            if is_of_memory(error):
                raise
            # The capture cannot end either, and the error of its end does not say why.
            warn(f"goes on without CUDA graphs: {error.__context__ or error}")
        else:
            self._by_work[owner] = graph
            return True
        self._recover(graph)
        return False

    def give_up(self, shape: Hashable) -> None:
        """Free the memory of all graphs, and capture no work of this shape again: the memory is too small.

        Call it after the handler of the error, whose traceback keeps the tensors of the failed work.
        """
        if not of_process.has_warned_of_memory:
            warn("out of memory: some batches are computed without CUDA graphs")
        of_process.has_warned_of_memory = True
        self._too_large.add(shape)
        self.free()

    def free(self) -> None:
        """Free the memory of all graphs. The next work is captured again."""
        self._drop()
        torch.cuda.empty_cache()

    def _drop(self) -> None:
        self._by_work.clear()
        self._pool = None

    def _capture(self, graph: torch.cuda.CUDAGraph, work: Callable[[], None], pool: Any = None) -> None:
        before = torch.cuda.current_stream(self._device)
        self._stream = self._stream or torch.cuda.Stream(self._device)
        try:
            # Another thread may be preparing batches in pinned memory, which the mode "global" refuses.
            with (
                torch.cuda.device(self._device),
                torch.cuda.graph(graph, pool=pool, stream=self._stream, capture_error_mode="thread_local"),
            ):
                work()
        finally:
            torch.cuda.set_stream(before)  # PyTorch stays on the capture's stream if its end fails

    def _recover(self, failed: torch.cuda.CUDAGraph) -> None:
        """Drop all graphs, and end the capture in which PyTorch's generator still is after a failure.

        Raises LostGeneratorError if it refuses random numbers nevertheless.
        """
        of_process.failed = failed
        _end_allocation(self._device, self._pool)
        self._drop()
        self._stream = None  # a failed capture may not have ended on it
        try:
            zeros = torch.zeros(1, device=self._device)

            def trivial() -> None:
                zeros.zero_()  # PyTorch warns of a graph that is empty

            with suppress(RuntimeError):
                self._capture(torch.cuda.CUDAGraph(), trivial)
            torch.rand(1, device=self._device)
        except RuntimeError as error:
            of_process.generator_error = str(error).partition("\n")[0].rstrip(".")
        refuse_without_generator()


def _end_allocation(device: torch.device, pool: Any) -> None:
    """Tell PyTorch's allocator that a failed capture does not allocate from its pool any more.

    The end of a capture does so only if it succeeds. Without this, the cache cannot be emptied in this
    process again, which each capture begins with.
    """
    number = torch.cuda.current_device() if device.index is None else device.index
    # Later versions of PyTorch may do this; then the first call is an error, and the second must not be made.
    with suppress(RuntimeError, AttributeError):
        torch._C._cuda_endAllocateToPool(number, pool)
        torch._C._cuda_releasePool(number, pool)


class GraphedWork:
    """Work that a GPU does many times, each time with the same tensors at the same addresses.

    Each call is given the same work, which must neither wait nor upload. The first call runs it without a
    graph, which initialises libraries. The second call captures it. If that fails, the work always runs
    without a graph. The work is not kept: if it is a method of the owner, the owner would never be freed
    before Python's collector runs, and neither would its tensors on the GPU.
    """

    def __init__(self, graphs: CudaGraphs, shape: Hashable):
        """shape: equal for work that needs as much memory."""
        self._graphs, self.shape = graphs, shape
        self._has_run = False

    def __call__(self, work: Callable[[], None]) -> None:
        """Raises torch.OutOfMemoryError, and LostGeneratorError before the work has begun.

        After a lack of memory the graphs are freed, and if there were none, work of this shape gets none.
        """
        if self._has_run and self._replayed(work):
            return
        try:
            with one_memory_error():
                work()
        except torch.OutOfMemoryError as error:
            message = str(error)
        else:
            self._has_run = True
            return
        if self._graphs.hold_memory:
            self._graphs.free()
        else:
            self._graphs.give_up(self.shape)
        raise torch.OutOfMemoryError(message)

    def _replayed(self, work: Callable[[], None]) -> bool:
        """Whether the work was done by a graph. If not, nothing was done."""
        try:
            with one_memory_error():
                return self._graphs.replay(self, work)
        except torch.OutOfMemoryError:
            pass
        self._graphs.give_up(self.shape)
        return False
