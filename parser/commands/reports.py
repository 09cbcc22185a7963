"""What commands with `--report` share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from parser.parsing.model import Model
from parser.system.console import warn
from parser.system.files import STANDARD, atomic_file, refuse_folder, refuse_to_overwrite
from parser.training.record import CURVES
from parser.treebank.vocabulary import UNKNOWN


def known_forms(*models: Model) -> Callable[[str], bool]:
    """Says whether a form is in the training treebanks of all models."""
    lexicons = [model.vocabulary.columns["form"] for model in models]
    return lambda form: all(forms.number(form) != UNKNOWN for forms in lexicons)


def curves_of(model: Path) -> bytes | None:
    """The learning curves beside a model that lies in the folder of its run; None without."""
    path = _curves_beside(model)
    return path.read_bytes() if model.is_dir() and path.is_file() else None


def _curves_beside(model: Path) -> Path:
    return model.resolve().parent / CURVES


def refuse_place(page: Path | None, sources: Iterable[str], models: Sequence[Path]) -> None:
    """Raises ValueError if what is printed or a page can not be written, before the work for it is done."""
    read: list[str | Path] = [*sources, *models, *map(_curves_beside, models)]
    refuse_to_overwrite(STANDARD, read)
    if page is None:
        return
    refuse_folder(page)
    if not page.parent.is_dir() or str(page) == STANDARD:
        raise ValueError(f"--report {page}: give the name of a file in a folder that exists")
    refuse_to_overwrite(page, read)


def write_page(path: Path, page: str) -> None:
    with atomic_file(str(path)) as file:
        file.write(page.encode(errors="replace"))
    warn(f"report: {path}")
