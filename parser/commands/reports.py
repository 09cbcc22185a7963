"""Functions that commands with `--report` share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from pathlib import Path

from parser.models.model import Model
from parser.system.console import warn
from parser.system.files import STANDARD, atomic_file, real_path, refuse_to_overwrite, refuse_unwritable
from parser.training.folder import METRICS
from parser.training.record import CURVES, drawn_curves, epochs_of
from parser.treebank.vocabulary import UNKNOWN


def known_forms(*models: Model) -> Callable[[str], bool]:
    """Return a function that says whether a form occurs in the training treebanks of all models."""
    lexicons = [model.vocabulary.columns["form"] for model in models]
    return lambda form: all(forms.number(form) != UNKNOWN for forms in lexicons)


def curves_of(model: Path) -> bytes | str:
    """Return the learning curves of a model in the folder of its run, which may be unfinished, as SVG; or the
    reason why there are none.
    """
    if not model.is_dir():
        return "The model is a package, which has no learning curves."
    metrics, curves = _beside(model)
    if metrics.is_file():
        try:
            epochs = epochs_of(metrics.parent)
            return drawn_curves(epochs) if epochs else "Its training run has not finished an epoch."
        except (ValueError, LookupError, TypeError, AttributeError, OSError):
            return f"{METRICS} of its training run is broken, so there are no learning curves."
    if curves.is_file():
        return curves.read_bytes()
    return f"The model does not lie in the folder of its training run, which would have {METRICS}."


def _beside(model: Path) -> tuple[Path, Path]:
    """Return the paths where the metrics and the curves of a model's run would be."""
    run = real_path(model).parent
    return run / METRICS, run / CURVES


def refuse_unwritable_page(page: Path | None, sources: Iterable[str], models: Sequence[Path]) -> None:
    """Raises ValueError or PermissionError, before work is done, if the page or the printed output cannot be
    written.
    """
    read: list[str | Path] = [*sources, *models, *chain.from_iterable(map(_beside, models))]
    refuse_to_overwrite(STANDARD, read)
    if page is None:
        return
    refuse_unwritable(page)
    if not page.parent.is_dir():
        raise ValueError(f"--report {page}: give the name of a file in a folder that exists")
    refuse_to_overwrite(page, read)


def write_page(path: Path, page: str) -> None:
    with atomic_file(str(path)) as file:
        file.write(page.encode(errors="replace"))
    warn(f"report: {path}")
