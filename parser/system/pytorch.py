"""PyTorch in this process: how it is tuned, and the memory that it uses."""

from __future__ import annotations

import os
import resource
import sys
from dataclasses import dataclass

import torch

from parser.system.machine import (
    KIB,
    container_memory_limit,
    keep_freed_memory,
    peak_resident_memory,
    reset_peak_resident_memory,
)

MANY_KERNELS, FEW_KERNELS = 4096, 256
"""How many compiled kernels oneDNN keeps, one for each shape. An epoch of a small parser needs several
thousand, and compiling them again took a seventh of its time. With a transformer, the shapes are larger, and
memory grew with each new one; there, compiling again takes a thirtieth of the time."""


def tune_process(kernels: int = MANY_KERNELS) -> None:
    """Keep freed memory and compiled kernels for reuse, and flush denormal numbers to zero.

    Must be called before tensors are created. See `keep_freed_memory`. kernels: how many to keep.

    CPUs are many times slower with denormal numbers. The L2 penalty makes the weights of inactive units
    denormal: after 17 epochs of one parser a step took 1.5 times as long. Gradients that vanish over hundreds
    of frames become denormal, too.
    """
    torch.set_flush_denormal(True)
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(kernels))
    keep_freed_memory()


def device_memory(device: torch.device) -> int:
    """Return the device's memory in bytes. For the CPU it is the limit of the container if there is one."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(installed, container_memory_limit() or installed)


@dataclass(frozen=True)
class MemoryUse:
    """The peak memory of a process in bytes."""

    host: int
    device_allocated: int = 0
    device_reserved: int = 0


def reset_peak_memory(device: torch.device) -> None:
    """Restart the measuring of `memory_use`. For the host this works on Linux only."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    reset_peak_resident_memory()


def memory_use(device: torch.device) -> MemoryUse:
    """Return the peak memory of this process since its start or the last `reset_peak_memory`."""
    host = peak_resident_memory()
    if not host:  # not on Linux: since the process started
        unit = 1 if sys.platform == "darwin" else KIB  # macOS counts bytes, other systems KiB
        host = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    if device.type != "cuda":
        return MemoryUse(host)
    return MemoryUse(host, torch.cuda.max_memory_allocated(device), torch.cuda.max_memory_reserved(device))


def peak_memory(device: torch.device) -> str:
    """Return the peak memory of this process as text."""
    peak = memory_use(device)
    text = f"{peak.host / 2**30:.2f} GiB"
    if device.type == "cuda":
        text += f", on the device {peak.device_allocated / 2**30:.2f} GiB"
    return text
