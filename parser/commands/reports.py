"""What commands with `--report` share."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from parser.files import atomic_file
from parser.parsing.model import Model
from parser.training.curves import CURVES
from parser.treebank.vocabulary import UNKNOWN


def known_forms(*models: Model) -> Callable[[str], bool]:
    """Says whether a form is in the training treebanks of all models."""
    lexicons = [model.vocabulary.columns["form"] for model in models]
    return lambda form: all(forms.number(form) != UNKNOWN for forms in lexicons)


def curves_of(model: Path) -> bytes | None:
    """The learning curves beside a model that lies in the folder of its run; None without."""
    path = model.resolve().parent / CURVES
    return path.read_bytes() if model.is_dir() and path.is_file() else None


def refuse_place(page: Path | None, sources: Iterable[str]) -> None:
    """Raises ValueError if a page can not be written to a path, before the work for it is done."""
    if page is None:
        return
    if not page.parent.is_dir() or page.is_dir() or str(page) == "-":
        raise ValueError(f"--report {page}: give the name of a file in a folder that exists")
    for source in sources:
        if page.exists() and os.path.exists(source) and os.path.samefile(page, source):
            raise ValueError(f"--report {page}: would overwrite what is read; choose another name")


def write_page(path: Path, page: str) -> None:
    with atomic_file(str(path)) as file:
        file.write(page.encode())
    print(f"report: {path}", file=sys.stderr)
