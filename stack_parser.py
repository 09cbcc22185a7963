"""Entry points under the program's own name: the command `stack-parser`, and the factories for spaCy.

The package is called `parser`. If Python finds another file or package of that name first, these entry points
report which one it is. Python itself would only say that `parser` is not a package.
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
"""The same names as in `parser.__all__`, which cannot be read if Python finds another `parser`."""
FACTORIES = "make_component", "make_tokenizer"


def program() -> int:
    """Run the command line, and return the exit code."""
    if fault := other_parser():
        print(f"stack-parser: {fault}", file=sys.stderr)
        return USER_ERROR
    from parser.__main__ import program as run

    return run()


def __getattr__(name: str) -> Any:
    """Return a public name of `parser`, or a factory that `project.entry-points` in pyproject.toml lists.

    spaCy loads all entry points at once. If ours cannot be imported, pipelines without our component still
    work. Raises ImportError for a public name of another `parser`, and AttributeError.
    """
    if name not in (*FACTORIES, *PUBLIC):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    fault = other_parser()
    if name in FACTORIES:
        if fault:
            return _refusing(f"stack-parser: {fault}", name == "make_component")
        import parser.api.spacy_factory

        return getattr(parser.api.spacy_factory, name)
    if fault:
        raise ImportError(f"stack-parser: {fault}")
    import parser

    return getattr(parser, name)


def other_parser() -> str:
    """Return an error message if Python finds another `parser` than the one next to this file, otherwise "".

    Imports neither of the two.
    """
    spec = find_spec("parser")
    file = spec.origin if spec else None
    if file is None or Path(file).resolve().parent == PACKAGE:
        return ""
    return (
        f"Python finds {file} in place of the package `parser` in {PACKAGE.parent}; "
        "rename it, or start the program elsewhere"
    )


def _refusing(message: str, is_component: bool) -> Callable[..., Any]:
    """Return a factory that raises ImportError when a pipeline uses it. Other pipelines still work."""

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
