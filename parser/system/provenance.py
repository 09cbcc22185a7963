"""Where, when and with which versions something was measured."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import torch

from parser.system.machine import cpu_info
from parser.system.version import __version__, program_commit

GPU_FIELDS = "driver_version", "clocks.max.sm", "clocks.max.memory", "power.limit"
GPU_SECONDS = 10
"""Timeout of nvidia-smi in seconds."""


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
