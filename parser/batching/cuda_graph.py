"""CUDA graphs: work that a GPU repeats costs the host one launch instead of thousands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from parser.console import warn


class GraphedWork:
    """Work that a GPU does many times, each time with the same tensors in the same places.

    It must neither wait nor upload, and change tensors in place. Its first call runs it as it is, by which
    libraries are made ready. The second captures it. If that fails, it runs as it is ever after.
    """

    def __init__(self, work: Callable[[], None], pool: Any = None):
        """pool: memory that graphs may share, by `torch.cuda.graph_pool_handle()`. Each overwrites what the
        others made, which must have been used by then.
        """
        self._work, self._pool = work, pool
        self._calls = 0
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self) -> None:
        self._calls += 1
        if self._calls == 2:
            self._graph = _captured(self._work, self._pool)
        if self._graph:
            self._graph.replay()
        else:
            self._work()


def _captured(work: Callable[[], None], pool: Any) -> torch.cuda.CUDAGraph | None:
    """None if that fails. What is captured is not done."""
    graph = torch.cuda.CUDAGraph()
    try:
        # Another thread may be preparing batches, in pinned memory.
        with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
            work()
    except RuntimeError as error:
        warn(f"goes on without a CUDA graph: {error}")
        return None
    return graph
