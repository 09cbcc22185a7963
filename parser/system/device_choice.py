"""Choosing a device, and saying why a GPU that is there cannot be used."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from parser.system.console import warn
from parser.system.version import to_install

if TYPE_CHECKING:
    import torch

DEVICE_FILES = Path("/dev")
NVIDIA = "nvidia[0-9]*"
OF_OTHERS = "dxg", "kfd"
"""The files of GPUs in WSL, and of those of AMD."""
HIDING = "", "-1", "NoDevFiles"
"""Values of CUDA_VISIBLE_DEVICES that hide all GPUs."""
BUILDS = "https://pytorch.org/get-started/locally"


def choose_device(name: str) -> str:
    """Return the name of a device: `cpu`, `cuda` or one like `cuda:1`. "auto" means CUDA if it is there.

    PyTorch is imported only where a GPU can be. Raises ValueError if the device does not exist.
    """
    if name == "cpu" or (name == "auto" and not (has_gpu() and why_no_cuda() is None)):
        return "cpu"
    if name == "auto":
        return "cuda"
    kind, colon, number = name.partition(":")
    if kind == "cpu" and number == "0":
        return "cpu"
    if kind != "cuda" or not (number.isdecimal() if colon else True):
        raise ValueError(f"device {name!r}: write cpu, cuda, cuda:1 or auto")
    if reason := why_no_cuda():
        raise ValueError(f"device {name!r}: {reason}")
    import torch

    if int(number or 0) >= (count := torch.cuda.device_count()):
        raise ValueError(f"device {name!r}: this machine has {count} CUDA devices")
    return name


def has_gpu() -> bool:
    """Return whether the system has files of a GPU, and GPUs are not hidden."""
    return _has_files(NVIDIA, *OF_OTHERS)


def _has_files(*patterns: str) -> bool:
    is_hidden = os.environ.get("CUDA_VISIBLE_DEVICES", "all") in HIDING
    return not is_hidden and any(any(DEVICE_FILES.glob(pattern)) for pattern in patterns)


def described(device: torch.device) -> str:
    """Return text such as `cpu` or `cuda, NVIDIA H200`."""
    import torch

    return str(device) if device.type == "cpu" else f"{device}, {torch.cuda.get_device_name(device)}"


def warn_of_unused_gpu(name: str) -> None:
    """Warn if "auto" means the CPU on a machine with a GPU, as with a driver that is too old."""
    if name == "auto" and _has_files(NVIDIA) and (reason := why_no_cuda()):
        warn(f"the CPU computes, though this machine has an NVIDIA GPU: {reason}")


def why_no_cuda() -> str | None:
    """Return why PyTorch cannot use CUDA; None if it can."""
    try:
        import torch
    except ImportError:
        return f"PyTorch is not installed: {to_install('train')}"
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
