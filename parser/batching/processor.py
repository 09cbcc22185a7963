"""The processor of this machine: which kernels are fast depends on its vendor."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

from parser.proc import CPU_INFO, cpu_info

AMD = "AuthenticAMD"


class Processor(NamedTuple):
    vendor: str = ""
    family: int = 0
    flags: frozenset[str] = frozenset()
    """Its instruction set extensions."""


@cache
def processor(description: Path = CPU_INFO) -> Processor:
    """description: a file in the format of /proc/cpuinfo. All fields are empty if it cannot be read."""
    found = cpu_info(description) or {}
    return Processor(
        found.get("vendor_id", ""), int(found.get("cpu family", 0)), frozenset(found.get("flags", "").split())
    )
