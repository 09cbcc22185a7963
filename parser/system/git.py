"""Runs git in the folder of a file."""

from __future__ import annotations

import subprocess
from pathlib import Path


def git(file: Path, *command: str) -> str | None:
    """Return the output of git in the folder of a file; None if git fails or is not installed."""
    called = ["git", "-C", str(file.parent), *command]
    try:
        done = subprocess.run(called, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
