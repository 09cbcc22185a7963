"""The machine that the program runs on."""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch

from parser.proc import container_memory_limit, peak_resident_memory, reset_peak_resident_memory

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Of glibc's mallopt: free memory at the heap's end, and blocks, from so many bytes on go back at once."""
LARGEST_INT = (1 << 31) - 1


def choose_device(name: str) -> torch.device:
    """The device of that name; "auto" is CUDA where there is one. Raises ValueError if it is not there."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        device = torch.device("meta")
    if device.type not in ("cpu", "cuda"):
        raise ValueError(f"device {name!r}: write cpu, cuda, cuda:1 or auto")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ValueError(f"device {name!r}: this machine has {torch.cuda.device_count()} CUDA devices")
    return device


def tune_process() -> None:
    """Let this process keep memory and kernels that it will need again, and take denormal numbers for zero.

    Call it before there are tensors.

    glibc gives large blocks back to the system at once and gets new ones page by page, zeroed: 60,000 page
    faults in a training step of 256 sentences, a quarter of its time. oneDNN keeps 1,024 kernels, one for
    each shape; an epoch has several thousand, and building them anew took a seventh of it.

    With numbers next to 0 a CPU is many times slower. L2 takes the weights of units that have died there:
    after 17 epochs of one parser a step took 1.5 times as long. Errors over hundreds of frames vanish there.
    """
    torch.set_flush_denormal(True)
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "4096")
    if platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        # Some versions refuse more than 32 MiB.
        if libc.mallopt(M_MMAP_THRESHOLD, 1 << 30) or libc.mallopt(M_MMAP_THRESHOLD, 1 << 25):
            libc.mallopt(M_TRIM_THRESHOLD, LARGEST_INT)


def give_memory_back() -> None:
    """Give the system what this process keeps without using it: more and more, as tensors of many sizes pass.

    To be called now and then, for what is needed again must be got again.
    """
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).malloc_trim(0)


@contextmanager
def one_memory_error() -> Iterator[None]:
    """Raises torch.OutOfMemoryError wherever memory is too small, also on the host."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if is_of_memory(error) and not isinstance(error, torch.OutOfMemoryError):
            raise torch.OutOfMemoryError(str(error)) from None
        raise


def is_of_memory(error: Exception) -> bool:
    """Whether it says that memory is too small: on a CPU torch has a RuntimeError for that."""
    of_cpu = isinstance(error, RuntimeError) and "allocate memory" in str(error)
    return of_cpu or isinstance(error, (MemoryError, torch.OutOfMemoryError))


def device_memory(device: torch.device) -> int:
    """Bytes that it has, for all programs together; of the host, what this process may have of them."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(installed, container_memory_limit() or installed)


class MemoryUse(NamedTuple):
    """The most memory that a process has used, in bytes."""

    host: int
    device_allocated: int = 0
    device_reserved: int = 0


def reset_peak_memory(device: torch.device) -> None:
    """Start measuring `memory_use` anew. For the host this works on Linux only."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    reset_peak_resident_memory()


def memory_use(device: torch.device) -> MemoryUse:
    """Peak memory of this process since its start, or since `reset_peak_memory`."""
    host = peak_resident_memory() or _maximum_resident_memory()
    if device.type != "cuda":
        return MemoryUse(host)
    return MemoryUse(host, torch.cuda.max_memory_allocated(device), torch.cuda.max_memory_reserved(device))


def _maximum_resident_memory() -> int:
    """Bytes, since the process began."""
    unit = 1 if sys.platform == "darwin" else 1024  # macOS counts bytes, other systems KiB
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def peak_memory(device: torch.device) -> str:
    """The peak memory of this process, as text."""
    peak = memory_use(device)
    text = f"{peak.host / 2**30:.2f} GiB"
    if device.type == "cuda":
        text += f", on the device {peak.device_allocated / 2**30:.2f} GiB"
    return text
