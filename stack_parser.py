"""The doors of the program that have its own name: the command `stack-parser`, and what spaCy asks for.

The package is called `parser`. A file or another package may have that name, too, and be found first: then
these tell it, where Python would say that `parser` is not a package.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).resolve().with_name("parser")
USER_ERROR = 2
PUBLIC = (
    "Alternative",
    "Constraints",
    "Parser",
    "Scores",
    "StoppedError",
    "Token",
    "TrainingResult",
    "Tree",
    "__version__",
    "evaluate",
    "load",
    "spacy_pipeline",
    "train",
)
"""As `parser.__all__`, which cannot be asked for if Python finds another `parser`."""


def program() -> int:
    """Run the command line; returns the exit code."""
    if fault := other_parser():
        print(f"stack-parser: {fault}", file=sys.stderr)
        return USER_ERROR
    from parser.__main__ import program as run

    return run()


def __getattr__(name: str) -> Any:
    """What `parser` has for programs, and what `project.entry-points` of pyproject.toml promise to spaCy.

    spaCy asks for all at once, and pipelines without our component go on where it cannot be had.
    """
    if name not in ("make_component", "make_tokenizer"):
        return _public(name)
    if fault := other_parser():
        return _refusing(f"stack-parser: {fault}", name == "make_component")
    import parser.api.spacy_factory

    return getattr(parser.api.spacy_factory, name)


def _public(name: str) -> Any:
    """Raises ImportError if the package is another one, AttributeError."""
    if name not in PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if fault := other_parser():
        raise ImportError(f"stack-parser: {fault}")
    import parser

    return getattr(parser, name)


def other_parser() -> str:
    """What is wrong if Python finds another `parser` than that beside this file; otherwise empty.

    Imports neither of them.
    """
    found = find_spec("parser")
    place = found.origin if found else None
    if place is None or Path(place).resolve().parent == PACKAGE:
        return ""
    return (
        f"Python finds {place} in place of the package `parser` in {PACKAGE.parent}; "
        "rename it, or start the program elsewhere"
    )


def _refusing(message: str, is_component: bool) -> Callable[..., Any]:
    """Raises ImportError when a pipeline gets it. Pipelines without it go on."""

    def refuse(
        nlp: Any = None,
        name: Any = None,
        model: Any = None,
        device: Any = None,
        batch_size: Any = None,
        overwrite: Any = None,
        treebank: Any = None,
        keep: Any = None,
    ) -> Any:
        raise ImportError(message)

    if is_component:
        from spacy.language import Language

        Language.factory("stack_parser", func=refuse)
    return refuse


if __name__ == "__main__":
    sys.exit(program())
