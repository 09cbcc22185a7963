"""What Linux tells in /proc and /sys. Elsewhere, or if a file cannot be read, the functions return None."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

CPU_INFO = Path("/proc/cpuinfo")
MEMORY_INFO = Path("/proc/meminfo")
CPU_TIMES = Path("/proc/stat")
PROCESS_STATUS = Path("/proc/self/status")
RESET_PEAK = Path("/proc/self/clear_refs")
CONTAINER_MEMORY = Path("/sys/fs/cgroup/memory.max")
KIB = 1024


class CpuTimes(NamedTuple):
    """Summed over all CPU cores since boot, in clock ticks."""

    busy: int
    total: int


def cpu_info(path: Path = CPU_INFO) -> dict[str, str] | None:
    """The description of one CPU core, by field name: vendor_id, model name, flags, ..."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    return {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}


def cpu_times(path: Path = CPU_TIMES) -> CpuTimes | None:
    """How long the CPU cores were busy."""
    with suppress(OSError, ValueError):
        name, *ticks = path.read_text(encoding="ascii").partition("\n")[0].split()
        user, nice, system, idle, waiting_for_disk, *interrupts = map(int, ticks[:8])  # the rest is in `user`
        if name == "cpu":
            busy = user + nice + system + sum(interrupts)
            return CpuTimes(busy, busy + idle + waiting_for_disk)
    return None


def available_memory(path: Path = MEMORY_INFO) -> int | None:
    """Bytes that programs can still get without swapping."""
    return _kibibytes(path, "MemAvailable")


def peak_resident_memory(path: Path = PROCESS_STATUS) -> int | None:
    """Bytes: maximum resident set size of this process, since its start or `reset_peak_resident_memory`."""
    return _kibibytes(path, "VmHWM")


def reset_peak_resident_memory(path: Path = RESET_PEAK) -> None:
    with suppress(OSError):
        path.write_text("5", encoding="ascii")


def container_memory_limit(path: Path = CONTAINER_MEMORY) -> int | None:
    """Bytes that the processes of this container may have together."""
    with suppress(OSError, ValueError):  # the file says "max" where there is no limit
        return int(path.read_text(encoding="ascii"))
    return None


def _kibibytes(path: Path, field: str) -> int | None:
    """Bytes of a field such as "VmHWM:   2048 kB"."""
    with suppress(OSError, StopIteration):
        lines = path.read_text(encoding="ascii", errors="replace").splitlines()
        return KIB * int(next(line.split()[1] for line in lines if line.startswith(f"{field}:")))
    return None
