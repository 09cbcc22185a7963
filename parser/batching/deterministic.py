"""Sums that are the same each time. On a GPU many kernels add atomically, in whatever order they come."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.utils.deterministic

CUBLAS_WORKSPACES = ":4096:8"
"""Without workspaces of fixed size, cuBLAS and cuDNN's LSTM may choose another algorithm each time."""


def fix_workspaces(wanted: bool, device: torch.device) -> None:
    """cuBLAS reads this at its first product alone."""
    if wanted and device.type == "cuda":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", CUBLAS_WORKSPACES)


@contextmanager
def deterministic_sums(wanted: bool, device: torch.device) -> Iterator[None]:
    """If wanted, use deterministic kernels on CUDA until the block ends; on a CPU all are.

    `fix_workspaces` is to be called before the first product of the process. Operators that have no such
    kernel raise RuntimeError.
    """
    if not wanted or device.type != "cuda":
        yield
        return
    fix_workspaces(wanted, device)
    memory: Any = torch.utils.deterministic
    before = torch.are_deterministic_algorithms_enabled(), memory.fill_uninitialized_memory
    only_warned = torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True)
    memory.fill_uninitialized_memory = False  # it would only find faults
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=only_warned)
        memory.fill_uninitialized_memory = before[1]
