"""The path of a model that is to be served, and its name. A supervisor needs them, which has no PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from parser.parsing.named_models import find_model, name_of


class NamedPath(NamedTuple):
    name: str
    path: Path

    @classmethod
    def of(cls, text: str) -> NamedPath:
        """NAME=PATH, or a path that gives the name. Raises ValueError if there is none in it."""
        before, sign, after = text.partition("=")
        is_named = bool(sign) and not Path(text).exists()
        wanted = after if is_named else text
        path = find_model(wanted)
        name = before if is_named else name_of(path)
        if not name or not wanted:
            raise ValueError(f"{text}: should be the path of a model, or NAME=PATH")
        return cls(name, path)
