"""The machine that the program runs on, as described by PyTorch, Linux and `nvidia-smi`; and `stamp`, which
tells where, when and with which versions something was measured.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import resource
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch

from parser.system.version import __version__, program_commit

AMD = "AuthenticAMD"
"""Vendor ID of AMD's processors."""
CPU_INFO = Path("/proc/cpuinfo")
MEMORY_INFO = Path("/proc/meminfo")
CPU_TIMES = Path("/proc/stat")
PROCESS_STATUS = Path("/proc/self/status")
RESET_PEAK = Path("/proc/self/clear_refs")
CONTAINER_MEMORY = Path("/sys/fs/cgroup/memory.max")
KIB = 1024
GPU_FIELDS = "driver_version", "clocks.max.sm", "clocks.max.memory", "power.limit"
GPU_SECONDS = 10
"""Timeout of nvidia-smi in seconds."""
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Parameters of glibc's mallopt: sizes in bytes from which free memory is returned to the system at once."""
LARGEST_INT = (1 << 31) - 1
OUT_OF_MEMORY = (
    *("allocate memory", "CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED"),
    *("CUDNN_STATUS_ALLOC_FAILED", "DEVICE_ALLOCATION_FAILED", "HOST_ALLOCATION_FAILED"),
)
"""Parts of messages of RuntimeErrors raised for the CPU, and by CUDA's libraries, which allocate memory
themselves."""


def tune_process() -> None:
    """Keep freed memory and compiled kernels for reuse, and flush denormal numbers to zero.

    Must be called before tensors are created.

    By default glibc returns large blocks to the system at once and gets new ones page by page: 60,000 page
    faults in a training step of 256 sentences, a quarter of its time. oneDNN caches 1,024 kernels, one for
    each shape; an epoch needs several thousand, and compiling them again took a seventh of its time.

    CPUs are many times slower with denormal numbers. The L2 penalty makes the weights of inactive units
    denormal: after 17 epochs of one parser a step took 1.5 times as long. Gradients that vanish over hundreds
    of frames become denormal, too.
    """
    torch.set_flush_denormal(True)
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "4096")
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


def is_of_memory(error: Exception) -> bool:
    """Return whether an error means out of memory; torch does not always raise torch.OutOfMemoryError."""
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in OUT_OF_MEMORY)


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


def gpu_limits(program: str = "nvidia-smi") -> list[dict[str, str]]:
    """Return `GPU_FIELDS` of each GPU, with units; empty if the program is missing or fails."""
    command = [program, f"--query-gpu={','.join(GPU_FIELDS)}", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=GPU_SECONDS)
    except (OSError, subprocess.SubprocessError):
        return []
    lines = (line.split(", ") for line in done.stdout.splitlines())
    return [dict(zip(GPU_FIELDS, values, strict=True)) for values in lines if len(values) == len(GPU_FIELDS)]


def stamp() -> dict[str, Any]:
    """Return the provenance of a measurement made now, in JSON types."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    described = machine()
    limits = {"gpu_limits": _gpu_limits()} if described["gpus"] else {}
    return {"date": now, "commit": program_commit(), "versions": _versions(), "machine": described, **limits}


def append_stamped(path: Path, row: Mapping[str, Any]) -> None:
    """Append a measurement and its provenance to a JSON Lines file."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({**row, **stamp()}, ensure_ascii=False) + "\n")


@cache
def machine() -> dict[str, Any]:
    """Return a description of the CPU and the GPUs."""
    gpus = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    capability = torch.backends.cpu.get_cpu_capability()
    core = cpu_info()
    name = platform.processor() if core is None else core.get("model name")
    cpu = name or platform.machine()
    return {"cpu": cpu, "vectors": capability, "cores": os.cpu_count(), "gpus": gpus}


@cache
def _gpu_limits() -> list[dict[str, str]]:
    return gpu_limits()


@cache
def _versions() -> dict[str, str | None]:
    return {
        "parser": __version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "cuda": torch.version.cuda,
        "cudnn": str(torch.backends.cudnn.version()) if torch.version.cuda else None,
    }
