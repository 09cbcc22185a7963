"""What commands with `--report` share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from parser.files import write_atomically
from parser.parsing.model import Model
from parser.training.curves import CURVES
from parser.treebank.vocabulary import UNKNOWN


def known_forms(model: Model) -> Callable[[str], bool]:
    """Says whether a form is in the training treebank of a model."""
    forms = model.vocabulary.columns["form"]
    return lambda form: forms.number(form) != UNKNOWN


def curves_of(model: Path) -> bytes | None:
    """The learning curves beside a model that lies in the folder of its run; None without."""
    path = model.resolve().parent / CURVES
    return path.read_bytes() if model.is_dir() and path.is_file() else None


def write_page(path: Path, page: str) -> None:
    write_atomically(path, page.encode())
