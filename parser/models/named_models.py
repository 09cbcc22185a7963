"""Models by name: those in a folder, those installed as packages, and those shipped with the program.

Nothing in a folder is executed. What is installed is a program's own choice, and is imported.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from importlib.metadata import entry_points
from pathlib import Path

from parser.system.console import listed, quoted
from parser.system.files import names_in, real_path

SUFFIX = ".stackparser"
"""The suffix of model files."""
FOLDER = "PARSER_MODELS"
"""The environment variable with the path of a folder of models."""
SHIPPED = Path(__file__).parents[2] / "models"
"""The folder in the checkout; a program that was installed from a wheel has none."""
INSTALLED, PREFIX = "stack_parser.models", "stack_parser_"
"""The group of entry points that give paths of installed models, and the prefix of their packages."""
NAME = re.compile(r"\w[\w. -]*")
SHOWN = 20
"""Names shown in a message."""


def name_of(path: Path) -> str:
    """The name of a model in a folder, such as that of its run, or in a file; can be empty.

    A model that is called only `model` gets the name of the folder around it, such as that of a package.
    """
    real = real_path(path)
    name = real.name.removesuffix(SUFFIX)
    return real.parent.name if name == "model" else name


def named_path(text: str) -> tuple[str, Path]:
    """The name and the path of a model: those of NAME=PATH, or a path and the name derived from it.

    Raises ValueError if it has no name.
    """
    before, sign, after = text.partition("=")
    is_named = bool(sign) and not Path(text).exists()
    wanted = after if is_named else text
    path = find_model(wanted)
    name = before if is_named else name_of(path)
    if not name or not wanted:
        raise ValueError(f"{text}: should be the path of a model, or NAME=PATH")
    return name, path


def models_in(folder: Path) -> dict[str, Path]:
    """The models in a folder, by name. Raises ValueError if there is none, or if it cannot be read."""
    models = _files(folder)
    if not models:
        raise ValueError(f"{folder}: has no model, which would be a file NAME{SUFFIX}")
    return models


def _files(folder: Path) -> dict[str, Path]:
    return {name.removesuffix(SUFFIX): folder / name for name in names_in(folder) if name.endswith(SUFFIX)}


def model_in(folder: Path, name: str) -> Path:
    """The model with a name, such as wolof-wtb or UD_Wolof-WTB, or for a language with only one model.

    Raises ValueError if there is none, or if there are several.
    """
    models = models_in(folder)
    meant = _meant(models, name)
    if len(meant) == 1:
        return models[meant[0]]
    names = meant or list(models)
    what = f"{quoted(name)} is several models" if meant else f"no model is {quoted(name)}"
    raise ValueError(f"{folder}: {what}; take one of {listed(names, SHOWN)}")


def _meant(names: Iterable[str], name: str) -> list[str]:
    """The names that mean the treebank called `name` or, if there are none, the language called so."""
    wanted = name.removeprefix("UD_").replace(" ", "_").lower()
    models = [(model, model.lower()) for model in names]
    treebanks = [model for model, lower in models if lower == wanted]
    return treebanks or [model for model, lower in models if wanted and lower.rpartition("-")[0] == wanted]


def package_of(name: str) -> str:
    """The package of a model's wheel, such as stack_parser_wolof_wtb for wolof-wtb or UD_Wolof-WTB."""
    return PREFIX + re.sub(r"[^a-z0-9]+", "_", name.removeprefix("UD_").lower()).strip("_")


def find_model(text: str) -> Path:
    """The path of a model that is given as a path or by name.

    Names are those of models that are installed, in the folder that PARSER_MODELS names, or shipped. A text
    that is an existing path or no known name is returned as a path. But if PARSER_MODELS names a folder,
    ValueError is raised for an unknown name, and if the folder cannot be read.
    """
    if os.path.exists(text) or not NAME.fullmatch(text):
        return Path(text)
    for entry in entry_points(group=INSTALLED):
        if entry.name in (text, package_of(text)):
            return Path(entry.load())
    names = _meant(_files(SHIPPED), text) if SHIPPED.is_dir() else []
    if folder := os.environ.get(FOLDER):
        try:
            if not names or _meant(_files(Path(folder)), text):
                return model_in(Path(folder), text)
        except ValueError as error:
            raise ValueError(f"{error} ({folder} is the folder that {FOLDER} names)") from None
    return model_in(SHIPPED, text) if names else Path(text)
