"""The machine that the program runs on."""

from __future__ import annotations

import resource
import sys

import torch


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


def peak_memory(device: torch.device) -> str:
    """What the process has needed at most, for people to read."""
    # Linux counts in KiB, macOS in bytes.
    unit = 1 if sys.platform == "darwin" else 1024
    text = f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30:.2f} GiB"
    if device.type == "cuda":
        text += f", on the device {torch.cuda.max_memory_allocated(device) / 2**30:.2f} GiB"
    return text
