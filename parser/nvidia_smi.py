"""What NVIDIA's command-line program tells of the GPUs."""

from __future__ import annotations

import subprocess

FIELDS = "driver_version", "clocks.max.sm", "clocks.max.memory", "power.limit"
SECONDS = 10
"""After which the program is given up."""


def gpu_limits(program: str = "nvidia-smi") -> list[dict[str, str]]:
    """`FIELDS` of each GPU, with their units; nothing where the program is missing or fails."""
    command = [program, f"--query-gpu={','.join(FIELDS)}", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=SECONDS)
    except (OSError, subprocess.SubprocessError):
        return []
    lines = (line.split(", ") for line in done.stdout.splitlines())
    return [dict(zip(FIELDS, values, strict=True)) for values in lines if len(values) == len(FIELDS)]
