"""Train StackLSTM dependency parsers in batches, and parse with them.

Programs use `load`, `train`, `evaluate` and `spacy_pipeline`, see docs/python.md. What one of them needs is
imported when it is first used; PyTorch, only to train or for a GPU.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from parser.system.version import __version__, naming_missing

if TYPE_CHECKING:
    from parser.api.evaluation import evaluate
    from parser.api.parser import Parser, load
    from parser.api.spacy_pipeline import spacy_pipeline
    from parser.api.training import TrainingResult, train
    from parser.api.tree import Tree
    from parser.evaluation.scores import Scores
    from parser.parsing.options import Constraints
    from parser.parsing.parsed_tree import Alternative
    from parser.system.interruption import StoppedError
    from parser.text.tokenizer import Token

__all__ = [
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
]
_HOMES = {
    "Alternative": "parser.parsing.parsed_tree",
    "Constraints": "parser.parsing.options",
    "Parser": "parser.api.parser",
    "load": "parser.api.parser",
    "spacy_pipeline": "parser.api.spacy_pipeline",
    "Scores": "parser.evaluation.scores",
    "StoppedError": "parser.system.interruption",
    "Token": "parser.text.tokenizer",
    "TrainingResult": "parser.api.training",
    "evaluate": "parser.api.evaluation",
    "train": "parser.api.training",
    "Tree": "parser.api.tree",
}

if sys.platform == "win32":
    raise ImportError("stack-parser runs on Linux; on Windows use it in WSL 2")


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        with naming_missing(f"parser.{name}", "train"):
            return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
