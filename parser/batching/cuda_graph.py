"""CUDA graphs: repeated work of a GPU costs the host one launch instead of thousands."""

from __future__ import annotations

from collections.abc import Callable

import torch

from parser.system.console import warn


class CudaGraphs:
    """Captures graphs on one device, until a capture fails for any reason other than a lack of memory.

    The graphs share memory: each overwrites the tensors that other graphs have created. Results that must
    outlive the work therefore belong in tensors that exist before it, which the work changes in place.
    """

    def __init__(self, device: torch.device):
        self._device = device
        self._latest: torch.cuda.CUDAGraph | None = None
        """The latest graph, whose memory the next one shares."""
        self._stream: torch.cuda.Stream | None = None
        """The stream of all captures: the memory of one stream is not reused in another."""
        self.failed = False
        """Whether a graph could not be captured."""
        self._has_given_up = False

    def captured(self, work: Callable[[], None]) -> torch.cuda.CUDAGraph | None:
        """Capture the work without doing it. Returns None if that fails, or has failed before.

        After a failure by lack of memory, other work can still be captured.
        """
        if self._has_given_up:
            return None
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.current_stream(self._device)
        pool = self._latest.pool() if self._latest else None
        self._stream = self._stream or torch.cuda.Stream(self._device)
        try:
            # Another thread may be preparing batches in pinned memory, which the mode "global" refuses.
            with (
                torch.cuda.device(self._device),
                torch.cuda.graph(
                    graph,
                    pool=pool,
                    stream=self._stream,
                    capture_error_mode="thread_local",
                ),
            ):
                work()
        except RuntimeError as error:
            torch.cuda.set_stream(stream)  # PyTorch stays on the capture's stream if its end fails
            if not self.failed:
                warn(f"goes on without CUDA graphs: {error}")
            self.failed, self._has_given_up = True, not isinstance(error, torch.OutOfMemoryError)
            return None
        self._latest = graph
        return graph


class GraphedWork:
    """Work that a GPU does many times, each time with the same tensors in the same places.

    Each call is given the same work, which must neither wait nor upload. The first call runs it without a
    graph, which initialises libraries. The second call captures it. If that fails, the work always runs
    without a graph. The work is not kept: if it is a method of the owner, the owner would never be freed
    before Python's collector runs, and neither would its tensors on the GPU.
    """

    def __init__(self, graphs: CudaGraphs):
        self._graphs = graphs
        self._calls = 0
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self, work: Callable[[], None]) -> None:
        if self._calls == 1:
            self._graph = self._graphs.captured(work)
        if self._graph:
            self._graph.replay()
        else:
            work()
        self._calls += 1  # calls that raised an error do not count
