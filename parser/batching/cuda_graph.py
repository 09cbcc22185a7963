"""CUDA graphs: work that a GPU repeats costs the host one launch instead of thousands."""

from __future__ import annotations

from collections.abc import Callable

import torch

from parser.system.console import warn


class CudaGraphs:
    """Captures graphs on one device, until a capture fails for another reason than memory.

    They share memory: each overwrites the tensors that others have made. So what outlives the work must be in
    tensors that were there before, which the work changes in place.
    """

    def __init__(self, device: torch.device):
        self._device = device
        self._latest: torch.cuda.CUDAGraph | None = None
        """Whose memory the next one shares."""
        self._stream: torch.cuda.Stream | None = None
        """Of all captures: memory of one stream is not used again in another."""
        self.failed = False
        """Whether one could not be captured."""
        self._has_given_up = False

    def captured(self, work: Callable[[], None]) -> torch.cuda.CUDAGraph | None:
        """None if that fails, or has failed before. What is captured is not done.

        If only memory is too small, others may still be captured.
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
            torch.cuda.set_stream(stream)  # PyTorch leaves that of the capture if its end fails
            if not self.failed:
                warn(f"goes on without CUDA graphs: {error}")
            self.failed, self._has_given_up = True, not isinstance(error, torch.OutOfMemoryError)
            return None
        self._latest = graph
        return graph


class GraphedWork:
    """Work that a GPU does many times, each time with the same tensors in the same places.

    It must neither wait nor upload. Its first call runs it as it is, by which libraries are made ready. The
    second captures it. If that fails, it runs as it is ever after.
    """

    def __init__(self, work: Callable[[], None], graphs: CudaGraphs):
        self._work, self._graphs = work, graphs
        self._calls = 0
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self) -> None:
        if self._calls == 1:
            self._graph = self._graphs.captured(self._work)
        if self._graph:
            self._graph.replay()
        else:
            self._work()
        self._calls += 1  # not of one that failed
