"""Choosing a device, and saying why a GPU that is there cannot be used."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import torch

from parser.system.console import warn

DEVICE_FILES = Path("/dev")
HIDING = "", "-1", "NoDevFiles"
"""Values of CUDA_VISIBLE_DEVICES that hide all GPUs."""
BUILDS = "https://pytorch.org/get-started/locally"


def choose_device(name: str) -> torch.device:
    """Return the device of a name; "auto" means CUDA if available. Raises ValueError if it does not exist."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        device = torch.device("meta")
    if device.type not in ("cpu", "cuda"):
        raise ValueError(f"device {name!r}: write cpu, cuda, cuda:1 or auto")
    if device.type == "cuda":
        if reason := why_no_cuda():
            raise ValueError(f"device {name!r}: {reason}")
        if (device.index or 0) >= (count := torch.cuda.device_count()):
            raise ValueError(f"device {name!r}: this machine has {count} CUDA devices")
    return device


def described(device: torch.device) -> str:
    """Return text such as `cpu` or `cuda, NVIDIA H200`."""
    return str(device) if device.type == "cpu" else f"{device}, {torch.cuda.get_device_name(device)}"


def warn_of_unused_gpu(name: str) -> None:
    """Warn if "auto" means the CPU on a machine with a GPU, as with a driver that is too old."""
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES", "all") in HIDING
    if name != "auto" or hidden or not any(DEVICE_FILES.glob("nvidia[0-9]*")):
        return
    if reason := why_no_cuda():
        warn(f"the CPU computes, though this machine has an NVIDIA GPU: {reason}")


def why_no_cuda() -> str | None:
    """Return why PyTorch cannot use CUDA; None if it can."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it would say what the error below says
        if torch.cuda.is_available():
            return None
    if torch.version.cuda is None:
        return (
            f"this PyTorch, {torch.__version__}, is built without CUDA; {BUILDS} says how to install others"
        )
    try:
        torch.cuda.init()
    except RuntimeError as error:
        return str(error).partition("\n")[0]
    return "PyTorch finds no CUDA device"
