"""The project's folder, as the Python of an environment finds it that lacks the program's dependencies."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

ABSENT = "torch", "conllu", "yaml", "tensorboard", "safetensors", "matplotlib", "networkx", "transformers"
"""Of that environment. spaCy itself needs pydantic, numpy and tqdm."""


def make_foreign(folder: Path) -> dict[str, str]:
    """Make such a folder. Returns the variables of processes that are started there."""
    folder.mkdir()
    for name in ("parser", "scripts"):
        (folder / name).symlink_to(Path(name).resolve())
    (folder / "sitecustomize.py").write_text(f"import sys; sys.modules.update(dict.fromkeys({ABSENT}))\n")
    information = folder / "stack_parser.egg-info"  # as an installation with `pip install -e` leaves it
    information.mkdir()
    (information / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: stack-parser\nVersion: 0\n")
    project, lines = tomllib.loads(Path("pyproject.toml").read_text())["project"], []
    for group, entries in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {place}" for name, place in entries.items())]
    (information / "entry_points.txt").write_text("\n".join(lines))
    return {**os.environ, "PYTHONPATH": str(folder)}
