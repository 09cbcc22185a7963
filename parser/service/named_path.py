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
        name, is_named, path = text.partition("=")
        if not is_named or Path(text).exists():
            path = text
            name = name_of(find_model(text))
        if not name or not path:
            raise ValueError(f"{text}: should be the path of a model, or NAME=PATH")
        return cls(name, find_model(path))
