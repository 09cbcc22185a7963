"""The path and name of a model to be served. The supervisor uses them, which does not import PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from parser.models.named_models import find_model, name_of


class NamedPath(NamedTuple):
    name: str
    path: Path

    @classmethod
    def of(cls, text: str) -> NamedPath:
        """Parse NAME=PATH, or a path from which the name is derived. Raises ValueError if it has no name."""
        before, sign, after = text.partition("=")
        is_named = bool(sign) and not Path(text).exists()
        wanted = after if is_named else text
        path = find_model(wanted)
        name = before if is_named else name_of(path)
        if not name or not wanted:
            raise ValueError(f"{text}: should be the path of a model, or NAME=PATH")
        return cls(name, path)
