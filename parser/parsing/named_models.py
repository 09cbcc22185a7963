"""Models by names: those of a folder, those that are installed as packages, and those that ship.

Nothing of a folder is executed. What is installed is a program's own choice, and is imported.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from importlib.metadata import entry_points
from pathlib import Path

from parser.system.console import listed, quoted

SUFFIX = ".stackparser"
"""Of the files that are models."""
FOLDER = "PARSER_MODELS"
"""The environment variable that names a folder of models."""
SHIPPED = Path(__file__).parents[2] / "models"
"""The folder of the checkout; a program that was installed from a wheel has none."""
INSTALLED, PREFIX = "stack_parser.models", "stack_parser_"
"""The group of entry points that are paths of installed models."""
NAME = re.compile(r"\w[\w. -]*")
SHOWN = 20
"""Names in a message."""


def name_of(path: Path) -> str:
    """The name of the model in a folder, as that of its run, or in a file; may be empty. What is only called
    `model` has the name of what it lies in, as the package of an installed one."""
    place = path.resolve()
    own = place.name.removesuffix(SUFFIX)
    return place.parent.name if own == "model" else own


def models_in(folder: Path) -> dict[str, Path]:
    """By name, those of a folder. Raises ValueError if there is none."""
    found = _files(folder)
    if not found:
        raise ValueError(f"{folder}: has no model, which would be a file NAME{SUFFIX}")
    return found


def _files(folder: Path) -> dict[str, Path]:
    return {path.name.removesuffix(SUFFIX): path for path in sorted(folder.glob(f"*{SUFFIX}"))}


def model_in(folder: Path, name: str) -> Path:
    """The model of a name, such as wolof-wtb or UD_Wolof-WTB, or of a language that has only one.

    Raises ValueError if there is none, or several.
    """
    models = models_in(folder)
    found = _meant(models, name)
    if len(found) == 1:
        return models[found[0]]
    names = found or list(models)
    what = f"{quoted(name)} is several models" if found else f"no model is {quoted(name)}"
    raise ValueError(f"{folder}: {what}; take one of {listed(names, SHOWN)}")


def _meant(names: Iterable[str], name: str) -> list[str]:
    """Those that are of the treebank or, without any, of the language of that name."""
    wanted = name.removeprefix("UD_").replace(" ", "_").lower()
    models = [(own, own.lower()) for own in names]
    found = [own for own, lower in models if lower == wanted]
    return found or [own for own, lower in models if wanted and lower.rpartition("-")[0] == wanted]


def package_of(name: str) -> str:
    """That of the wheel of a model, as stack_parser_wolof_wtb of wolof-wtb or UD_Wolof-WTB."""
    return PREFIX + re.sub(r"[^a-z0-9]+", "_", name.removeprefix("UD_").lower()).strip("_")


def find_model(text: str) -> Path:
    """A path, or the model of that name: installed, in the folder that PARSER_MODELS names, or shipped.

    What exists is a path, and so is a name of nothing; but if PARSER_MODELS names a folder, ValueError is
    raised for the latter.
    """
    if os.path.exists(text) or not NAME.fullmatch(text):
        return Path(text)
    for entry in entry_points(group=INSTALLED):
        if entry.name in (text, package_of(text)):
            return Path(entry.load())
    folder = os.environ.get(FOLDER)
    names = _meant(_files(SHIPPED), text)
    if folder and (not names or _meant(_files(Path(folder)), text)):
        return model_in(Path(folder), text)
    return model_in(SHIPPED, text) if names else Path(text)
