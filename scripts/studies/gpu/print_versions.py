"""A stage: the GPU, and the versions of what drives it. Needs nothing but PyTorch.

Fails if there is no GPU, with what is known about why.
"""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[2]))  # modules shared by scripts

from gpu_visit.runner import report

from parser.system.provenance import gpu_limits

PACKAGES = (
    *("numpy", "pyyaml", "tqdm", "safetensors", "pydantic", "pydantic_core", "annotated-types"),
    *("typing-inspection", "conllu", "matplotlib", "tensorboard", "triton"),
    *("pytest", "pytest-xdist", "hypothesis", "psutil", "h5py"),
)
"""What stages need, and what tests need."""


def main(rehearse: bool) -> None:
    machine = {
        "gpu": "simulated" if rehearse else None,
        "torch": str(torch.__version__),
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version() if torch.version.cuda else None,
        "driver": None,
        "python": platform.python_version(),
        "cores": os.cpu_count(),
    }
    if not rehearse:
        limits = gpu_limits()
        machine["driver"] = limits[0]["driver_version"] if limits else None
        if not torch.cuda.is_available():
            sys.exit(f"there is no GPU: torch.cuda.is_available() is False; {machine}")
        machine["gpu"] = torch.cuda.get_device_name()
        machine["memory_gib"] = round(torch.cuda.get_device_properties(0).total_memory / 2**30, 1)
        machine["limits"] = limits[:1]
        torch.ones(3, device="cuda").sum().item()  # a driver that is too old fails here, at the latest
    packages = {name: _version(name) for name in PACKAGES}
    report(**machine, packages=packages)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


if __name__ == "__main__":
    main(rehearse="--rehearse" in sys.argv)
