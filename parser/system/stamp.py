"""The provenance of measurements: date, commit, versions, machine, and the limits of its GPUs."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import torch

from parser.system.git import git
from parser.system.machine import cpu_info, gpu_limits
from parser.system.version import __version__


def stamp() -> dict[str, Any]:
    """Return the provenance of a measurement made now, in JSON types."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    own = machine()
    limits = {"gpu_limits": _gpu_limits()} if own["gpus"] else {}
    return {"date": now, "commit": own_commit(), "versions": _versions(), "machine": own, **limits}


def append_stamped(path: Path, row: Mapping[str, Any]) -> None:
    """Append a measurement and its provenance to a JSON Lines file."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({**row, **stamp()}, ensure_ascii=False) + "\n")


@cache
def machine() -> dict[str, Any]:
    """Return a description of the CPU and the GPUs."""
    gpus = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    capability = torch.backends.cpu.get_cpu_capability()
    return {"cpu": _cpu_name(), "vectors": capability, "cores": os.cpu_count(), "gpus": gpus}


@cache
def _gpu_limits() -> list[dict[str, str]]:
    return gpu_limits()


def _cpu_name() -> str:
    described = cpu_info()
    if described is None:
        return platform.processor() or platform.machine()
    return described.get("model name") or platform.machine()


@cache
def _versions() -> dict[str, str | None]:
    return {
        "parser": __version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "cuda": torch.version.cuda,
        "cudnn": str(torch.backends.cudnn.version()) if torch.version.cuda else None,
    }


def own_commit() -> str | None:
    """Return the commit of the running source, see `commit_of`."""
    return commit_of(Path(__file__))


@cache
def commit_of(file: Path) -> str | None:
    """Return the commit of the checkout that contains a file, or None; with "-dirty" if it has changes.

    A file in an environment inside another project's checkout does not belong to that project.
    """
    if git(file, "ls-files", "--error-unmatch", "--", file.name) is None:
        return None
    return git(file, "describe", "--always", "--exclude=*", "--abbrev=40", "--dirty")
