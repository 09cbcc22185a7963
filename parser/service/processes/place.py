"""What a worker knows of the others."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

PLACE = "PARSER_PLACE"
"""Environment variable of a worker, which has its place."""


class WorkerPlace(NamedTuple):
    number: int
    """From 1. A worker that is started for one that has ended has the same."""
    descriptor: int
    """Of the channel."""
    folder: Path
    """Which all workers share, and nobody else can read."""

    @classmethod
    def of_this_process(cls) -> WorkerPlace | None:
        """None if it is no worker."""
        if PLACE not in os.environ:
            return None
        number, descriptor, folder = os.environ[PLACE].split(" ", 2)
        return cls(int(number), int(descriptor), Path(folder))

    def variable(self) -> dict[str, str]:
        """Of the environment of the worker that has this place."""
        return {PLACE: f"{self.number} {self.descriptor} {self.folder}"}
