"""Computing on a device: asynchronous uploads, too large batches, repeatable sums, and forked processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import Any, Generic, Protocol, TypeVar

import torch
import torch.utils.deterministic
from torch import Tensor

from parser.system.console import warn
from parser.system.machine import TooLongError, is_of_memory

ALIGNMENT = 16
"""In bytes; a tensor of any data type can start at a multiple of this number."""
IMPORTING_PROCESS = os.getpid()
"""The process that imported PyTorch; not this one if it was forked since."""
Moved = TypeVar("Moved", bound="HasTensors")


class HasTensors(Protocol):
    def map(self: Moved, function: Callable[[Tensor], Tensor]) -> Moved:
        """Return a copy with a function applied to each tensor that a device needs, in a fixed order."""


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Return a copy on the device, without host synchronisation, or the tensor if it is already there."""
    if device.type == "cuda" and tensor.device.type == "cpu":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def all_to_device(whole: Moved, device: torch.device) -> Moved:
    """Return the object with all its tensors on the device. Tensors on the host are copied by one upload."""
    if device.type == "cuda":
        return Packed(whole).to(device)
    return whole.map(lambda tensor: tensor.to(device))


class Packed(Generic[Moved]):
    """A copy of an object with its tensors on the host in one pinned buffer, so that one upload moves all."""

    def __init__(self, whole: Moved):
        tensors = _tensors(whole)
        sizes = [tensor.nbytes if _is_on_host(tensor) else 0 for tensor in tensors]
        ends = list(accumulate(-(-size // ALIGNMENT) * ALIGNMENT for size in sizes))
        self._starts = [0, *ends]
        self.buffer = torch.empty(self._starts[-1], dtype=torch.uint8, pin_memory=True)
        """[bytes] The pinned buffer."""
        parts = _parts(self.buffer, tensors, self._starts)

        def packed(tensor: Tensor) -> Tensor:
            part = next(parts)
            return tensor if part is tensor else part.copy_(tensor)

        self._whole = whole.map(packed)

    def to(self, device: torch.device) -> Moved:
        """Return the object on the device, without host synchronisation."""
        return self.within(self.buffer.to(device, non_blocking=True))

    def within(self, uploaded: Tensor) -> Moved:
        """Return the object with its tensors in `uploaded`, a copy of `buffer`."""
        moved = _parts(uploaded, _tensors(self._whole), self._starts)
        return self._whole.map(lambda tensor: next(moved))


def _tensors(whole: HasTensors) -> list[Tensor]:
    tensors: list[Tensor] = []

    def note(tensor: Tensor) -> Tensor:
        tensors.append(tensor)
        return tensor

    whole.map(note)
    return tensors


def _parts(buffer: Tensor, tensors: Sequence[Tensor], starts: Sequence[int]) -> Iterator[Tensor]:
    """Yield the parts of a buffer of bytes that hold tensors. Tensors on a device are yielded unchanged."""
    for tensor, start in zip(tensors, starts, strict=False):
        if _is_on_host(tensor):
            yield buffer[start : start + tensor.nbytes].view(tensor.dtype).view(tensor.shape)
        else:
            yield tensor


def _is_on_host(tensor: Tensor) -> bool:
    return tensor.device.type == "cpu"


Result = TypeVar("Result")


def in_microbatches(compute: Callable[[Sequence[Tensor]], Result], rows: Tensor, lengths: Tensor) -> Result:
    """Return compute([rows]). If memory is too small, start again with twice as many microbatches.

    rows: [batch], numbers of sentences; lengths: [sentences], in words. Raises TooLongError.
    """
    count = 1
    while True:
        try:
            with one_memory_error():
                return compute(rows.tensor_split(count))
        except torch.OutOfMemoryError:
            if count == len(rows):
                longest = rows[lengths[rows].argmax()]
                raise TooLongError(int(longest), int(lengths[longest])) from None
        torch.cuda.empty_cache()  # CUDA's libraries cannot use what PyTorch keeps
        count = min(2 * count, len(rows))
        warn(f"out of memory: a batch of {len(rows)} sentences is computed as {count} microbatches")


@contextmanager
def one_memory_error() -> Iterator[None]:
    """Turn all errors about a lack of memory, also on the host, into torch.OutOfMemoryError."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if is_of_memory(error) and not isinstance(error, torch.OutOfMemoryError):
            raise torch.OutOfMemoryError(str(error)) from None
        raise


CUBLAS_WORKSPACES = ":4096:8"
"""Sizes of workspaces. Without fixed sizes, cuBLAS and cuDNN's LSTM may use another algorithm each time."""


def fix_workspaces(wanted: bool, device: torch.device) -> None:
    """If wanted, fix the workspaces on CUDA. cuBLAS reads this setting only at its first product."""
    if wanted and device.type == "cuda":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", CUBLAS_WORKSPACES)


@contextmanager
def deterministic_sums(wanted: bool, device: torch.device) -> Iterator[None]:
    """If wanted, use deterministic kernels on CUDA until the block exits. On a CPU all kernels are.

    `fix_workspaces` must be called before the first product of the process. Operators without a deterministic
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
    memory.fill_uninitialized_memory = False  # it would only find errors
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=only_warned)
        memory.fill_uninitialized_memory = before[1]


def compute_alone_after_fork() -> None:
    """In a forked process, compute with one thread. Must be called before anything is computed.

    The threads of the other process do not exist in this one, and PyTorch would wait for them forever.
    """
    if os.getpid() != IMPORTING_PROCESS:
        torch.set_num_threads(1)
