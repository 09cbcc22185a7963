"""The data folder, in which configs find their files on each machine."""

from __future__ import annotations

import os
from pathlib import Path

DATA_FOLDER = "PARSER_DATA"
"""The environment variable that names the data folder."""
DATA = "data"
"""The data folder, unless PARSER_DATA names another one."""


def data_path(path: str) -> str:
    """A path from a config, with ${PARSER_DATA} replaced.

    `data/` in the working directory stands for the data folder, too: a path that does not exist in the former
    is looked up in the latter.
    """
    folder = os.environ.get(DATA_FOLDER) or DATA
    replaced = path.replace(f"${{{DATA_FOLDER}}}", folder)
    first, _, below = replaced.partition("/")
    elsewhere = os.path.join(folder, below)
    return (
        elsewhere
        if first == DATA and not os.path.exists(replaced) and os.path.exists(elsewhere)
        else replaced
    )


def path_in_configs(path: Path) -> str:
    """The path as written in configs, which are the same on all machines. The inverse of `data_path`."""
    folder = os.environ.get(DATA_FOLDER)
    if folder and path.is_relative_to(folder):
        return f"${{{DATA_FOLDER}}}/{path.relative_to(folder)}"
    return str(path)
