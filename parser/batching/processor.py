"""What this machine's processor is: how fast a library's kernels are differs from maker to maker."""

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
    """What it can do."""


@cache
def processor(description: Path = CPU_INFO) -> Processor:
    """description: as Linux has it; where there is none, nothing is known."""
    found = cpu_info(description) or {}
    return Processor(
        found.get("vendor_id", ""), int(found.get("cpu family", 0)), frozenset(found.get("flags", "").split())
    )
