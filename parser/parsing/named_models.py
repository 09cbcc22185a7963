"""Models by names: those of a folder, and those that are installed as packages.

Nothing of a folder is executed. What is installed is a program's own choice, and is imported.
"""

from __future__ import annotations

import os
import re
from importlib.metadata import entry_points
from pathlib import Path

from parser.system.console import quoted

SUFFIX = ".stackparser"
"""Of the files that are models."""
FOLDER = "PARSER_MODELS"
"""The environment variable that names a folder of models."""
INSTALLED = "stack_parser.models"
"""The group of entry points that are paths of installed models."""
NAME = re.compile(r"[\w-]+")
SHOWN = 20
"""Names in a message."""


def name_of(path: Path) -> str:
    """The name of the model in a folder, as that of its run, or in a file; may be empty."""
    place = path.resolve()
    return (place.parent if place.name == "model" else place).name.removesuffix(SUFFIX)


def models_in(folder: Path) -> dict[str, Path]:
    """By name, those of a folder. Raises ValueError if there is none."""
    found = {path.name.removesuffix(SUFFIX): path for path in sorted(folder.glob(f"*{SUFFIX}"))}
    if not found:
        raise ValueError(f"{folder}: has no model, which would be a file NAME{SUFFIX}")
    return found


def model_in(folder: Path, name: str) -> Path:
    """The model of a name, such as wolof-wtb or UD_Wolof-WTB, or of a language that has only one.

    Raises ValueError if there is none, or several.
    """
    models = models_in(folder)
    wanted = name.removeprefix("UD_").replace(" ", "_").lower()
    found = [own for own in models if own.lower() == wanted]
    found = found or [own for own in models if own.lower().rpartition("-")[0] == wanted]
    if len(found) == 1:
        return models[found[0]]
    names = found or list(models)
    listed = f"{', '.join(names[:SHOWN])}{', ...' if len(names) > SHOWN else ''}"
    what = f"{quoted(name)} is several models" if found else f"no model is {quoted(name)}"
    raise ValueError(f"{folder}: {what}; take one of {listed}")


def find_model(text: str) -> Path:
    """A path, or the model of that name that is installed, or in the folder that PARSER_MODELS names.

    What exists is a path. Raises ValueError if there is such a folder, and no such model in it.
    """
    if os.path.exists(text) or not NAME.fullmatch(text):
        return Path(text)
    for entry in entry_points(group=INSTALLED, name=text):
        return Path(entry.load())
    folder = os.environ.get(FOLDER)
    return model_in(Path(folder), text) if folder else Path(text)
