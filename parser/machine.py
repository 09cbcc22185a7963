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
"""Parameters of glibc's mallopt: sizes in bytes from which free memory is returned to the system at once."""
LARGEST_INT = (1 << 31) - 1
OUT_OF_MEMORY = (
    *("allocate memory", "CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED"),
    *("CUDNN_STATUS_ALLOC_FAILED", "DEVICE_ALLOCATION_FAILED", "HOST_ALLOCATION_FAILED"),
)
"""Parts of the messages of RuntimeErrors: of a CPU, of CUDA's libraries, which allocate by themselves."""


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
    """Keep freed memory and compiled kernels for reuse, and flush denormal numbers to zero.

    Must be called before tensors are created.

    By default glibc returns large blocks to the system at once and gets new ones page by page: 60,000 page
    faults in a training step of 256 sentences, a quarter of its time. oneDNN caches 1,024 kernels, one for
    each shape; an epoch needs several thousand, and compiling them again took a seventh of its time.

    CPUs are many times slower with denormal numbers. The L2 penalty takes the weights of inactive units
    there: after 17 epochs of one parser a step took 1.5 times as long. Gradients that vanish over hundreds of
    frames become denormal, too.
    """
    torch.set_flush_denormal(True)
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "4096")
    if platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        # Some versions refuse more than 32 MiB.
        if libc.mallopt(M_MMAP_THRESHOLD, 1 << 30) or libc.mallopt(M_MMAP_THRESHOLD, 1 << 25):
            libc.mallopt(M_TRIM_THRESHOLD, LARGEST_INT)


def return_unused_memory() -> None:
    """Return unused heap memory to the system (malloc_trim).

    It grows when tensors have many different sizes. Call it rarely: memory that is needed again costs page
    faults.
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
    """Whether the error means out of memory, which torch does not always raise as torch.OutOfMemoryError."""
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in OUT_OF_MEMORY)


def device_memory(device: torch.device) -> int:
    """The device's memory in bytes. For the CPU, the limit of the container if there is one."""
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
