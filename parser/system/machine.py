"""The machine that the program runs on, as described by Linux, and its memory."""

from __future__ import annotations

import ctypes
import platform
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

AMD = "AuthenticAMD"
"""Vendor ID of AMD's processors."""
CPU_INFO = Path("/proc/cpuinfo")
MEMORY_INFO = Path("/proc/meminfo")
CPU_TIMES = Path("/proc/stat")
PROCESS_STATUS = Path("/proc/self/status")
RESET_PEAK = Path("/proc/self/clear_refs")
CONTAINER_MEMORY = Path("/sys/fs/cgroup/memory.max")
KIB = 1024
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Parameters of glibc's mallopt: sizes in bytes from which free memory is returned to the system at once."""
LARGEST_INT = (1 << 31) - 1
OUT_OF_MEMORY = (
    *("allocate memory", "out of memory", "CUBLAS_STATUS_ALLOC_FAILED"),
    *("CUDNN_STATUS_ALLOC_FAILED", "DEVICE_ALLOCATION_FAILED", "HOST_ALLOCATION_FAILED"),
)
"""Parts of the messages of PyTorch's RuntimeErrors, on a CPU and on a GPU, whose libraries allocate memory
themselves."""


def keep_freed_memory() -> None:
    """Keep freed memory for reuse.

    By default glibc returns large blocks to the system at once and gets new ones page by page: 60,000 page
    faults in a training step of 256 sentences, a quarter of its time.
    """
    if platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        # Some versions reject more than 32 MiB.
        if libc.mallopt(M_MMAP_THRESHOLD, 1 << 30) or libc.mallopt(M_MMAP_THRESHOLD, 1 << 25):
            libc.mallopt(M_TRIM_THRESHOLD, LARGEST_INT)


def return_unused_memory() -> None:
    """Return unused heap memory to the system (malloc_trim).

    Unused memory grows when tensors have many different sizes. Call this rarely: memory that is needed again
    costs page faults.
    """
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).malloc_trim(0)


def is_of_memory(error: BaseException) -> bool:
    """Return whether an error means out of memory, in PyTorch too, which raises a RuntimeError."""
    if isinstance(error, MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in OUT_OF_MEMORY)


class TooLongError(ValueError):
    """The device's memory is too small for a single sentence, whose number is `row`."""

    def __init__(self, row: int, words: int, where: str = ""):
        """where: begins the message, if it names the sentence."""
        super().__init__(f"{where}the device has too little memory for a sentence of {words:,} words")
        self.row = row


class Processor(NamedTuple):
    vendor: str = ""
    family: int = 0
    flags: frozenset[str] = frozenset()
    """Instruction set extensions of the processor."""


@cache
def processor(description: Path = CPU_INFO) -> Processor:
    """Return the processor. description: a file in the format of /proc/cpuinfo. All fields are empty if it
    cannot be read.
    """
    core = cpu_info(description) or {}
    return Processor(
        core.get("vendor_id", ""), int(core.get("cpu family", 0)), frozenset(core.get("flags", "").split())
    )


class CpuTimes(NamedTuple):
    """Times summed over all CPU cores since boot, in clock ticks."""

    busy: int
    total: int


def cpu_info(path: Path = CPU_INFO) -> dict[str, str] | None:
    """Return the description of one CPU core by field name: vendor_id, model name, flags, ..."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    return {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}


def cpu_times(path: Path = CPU_TIMES) -> CpuTimes | None:
    """Return how long the CPU cores were busy."""
    with suppress(OSError, ValueError):
        name, *ticks = path.read_text(encoding="ascii").partition("\n")[0].split()
        user, nice, system, idle, waiting_for_disk, *interrupts = map(int, ticks[:8])  # the rest is in `user`
        if name == "cpu":
            busy = user + nice + system + sum(interrupts)
            return CpuTimes(busy, busy + idle + waiting_for_disk)
    return None


def available_memory(path: Path = MEMORY_INFO) -> int | None:
    """Return the bytes that programs can still allocate without swapping."""
    return _kibibytes(path, "MemAvailable")


def peak_resident_memory(path: Path = PROCESS_STATUS) -> int | None:
    """Return the maximum resident set size in bytes since the start or `reset_peak_resident_memory`."""
    return _kibibytes(path, "VmHWM")


def reset_peak_resident_memory(path: Path = RESET_PEAK) -> None:
    with suppress(OSError):
        path.write_text("5", encoding="ascii")


def container_memory_limit(path: Path = CONTAINER_MEMORY) -> int | None:
    """Return the limit in bytes on the memory of all processes in this container."""
    with suppress(OSError, ValueError):  # the file contains "max" if there is no limit
        return int(path.read_text(encoding="ascii"))
    return None


def _kibibytes(path: Path, field: str) -> int | None:
    """Return the bytes of a field such as "VmHWM:   2048 kB"."""
    with suppress(OSError, StopIteration):
        lines = path.read_text(encoding="ascii", errors="replace").splitlines()
        return KIB * int(next(line.split()[1] for line in lines if line.startswith(f"{field}:")))
    return None
