"""Computing: uploads that do not wait, too large batches, repeatable sums, and forked processes."""

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
from parser.system.machine import is_of_memory

ALIGNMENT = 16
"""Bytes; a tensor of any data type may begin at a multiple of it."""
IMPORTING_PROCESS = os.getpid()
"""The one that imported PyTorch; another one, if this process was forked since."""
Moved = TypeVar("Moved", bound="HasTensors")


class HasTensors(Protocol):
    def map(self: Moved, function: Callable[[Tensor], Tensor]) -> Moved:
        """A copy with a function applied to each tensor that a device needs, in a fixed order."""


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """A copy on the device, without host synchronisation; the tensor itself if it is already there."""
    if device.type == "cuda" and tensor.device.type == "cpu":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def all_to_device(whole: Moved, device: torch.device) -> Moved:
    """The object with its tensors on the device: of those on the host a copy, by one upload."""
    if device.type == "cuda":
        return Packed(whole).to(device)
    return whole.map(lambda tensor: tensor.to(device))


class Packed(Generic[Moved]):
    """A copy of an object, its tensors on the host in one pinned buffer, so that one upload moves all."""

    def __init__(self, whole: Moved):
        tensors = _tensors(whole)
        sizes = [tensor.nbytes if _is_on_host(tensor) else 0 for tensor in tensors]
        ends = list(accumulate(-(-size // ALIGNMENT) * ALIGNMENT for size in sizes))
        self._starts = [0, *ends]
        self.buffer = torch.empty(self._starts[-1], dtype=torch.uint8, pin_memory=True)
        """[bytes]"""
        places = _parts(self.buffer, tensors, self._starts)

        def packed(tensor: Tensor) -> Tensor:
            place = next(places)
            return tensor if place is tensor else place.copy_(tensor)

        self._whole = whole.map(packed)

    def to(self, device: torch.device) -> Moved:
        """Without host synchronisation."""
        return self.within(self.buffer.to(device, non_blocking=True))

    def within(self, uploaded: Tensor) -> Moved:
        """The object with its tensors in a copy of `buffer`."""
        moved = _parts(uploaded, _tensors(self._whole), self._starts)
        return self._whole.map(lambda tensor: next(moved))


def _tensors(whole: HasTensors) -> list[Tensor]:
    found: list[Tensor] = []

    def note(tensor: Tensor) -> Tensor:
        found.append(tensor)
        return tensor

    whole.map(note)
    return found


def _parts(buffer: Tensor, tensors: Sequence[Tensor], starts: Sequence[int]) -> Iterator[Tensor]:
    """The places of tensors in a buffer of bytes; those on a device stay themselves."""
    for tensor, start in zip(tensors, starts, strict=False):
        if _is_on_host(tensor):
            yield buffer[start : start + tensor.nbytes].view(tensor.dtype).view(tensor.shape)
        else:
            yield tensor


def _is_on_host(tensor: Tensor) -> bool:
    return tensor.device.type == "cpu"


Result = TypeVar("Result")


class TooLongError(ValueError):
    """The device's memory is too small for a single sentence, whose number is `row`."""

    def __init__(self, row: int, words: int):
        super().__init__(f"the device has too little memory for a sentence of {words:,} words")
        self.row = row


def in_microbatches(compute: Callable[[Sequence[Tensor]], Result], rows: Tensor, lengths: Tensor) -> Result:
    """compute([rows]), or if memory is too small, compute(twice as many microbatches) from the start.

    rows: [batch] numbers of sentences; lengths: [sentences] in words. Raises TooLongError.
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
    """Raises torch.OutOfMemoryError wherever memory is too small, also on the host."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if is_of_memory(error) and not isinstance(error, torch.OutOfMemoryError):
            raise torch.OutOfMemoryError(str(error)) from None
        raise


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


def compute_alone_after_fork() -> None:
    """In a forked process, compute with one thread. Must be called before anything is computed.

    The threads with which the other process has computed are not there, and PyTorch would wait for them
    forever.
    """
    if os.getpid() != IMPORTING_PROCESS:
        torch.set_num_threads(1)
