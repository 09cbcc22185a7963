"""Evaluate from Python, like the command."""

from __future__ import annotations

import os
from typing import get_args

from parser.api.parser import Parser, load, warn_at_caller
from parser.config.data_folder import data_path
from parser.evaluation.evaluate import evaluate as evaluate_model
from parser.evaluation.scores import Scores
from parser.treebank.conllu import Roots, read_treebank


def evaluate(
    model: Parser | str | os.PathLike[str],
    file: str | os.PathLike[str],
    *,
    device: str | None = None,
    roots: Roots = "refuse",
    punctuation: bool = True,
) -> Scores:
    """Score a model on a treebank, like `stack-parser evaluate`. `as_dict()` of the result lists all scores.

    model: a loaded parser, or an argument for `load`. device: see `load`, only for a model that is not
    loaded. roots: see `stack-parser evaluate --roots`. Raises ValueError and OSError.
    """
    if roots not in get_args(Roots):
        raise ValueError(f"roots is {roots!r}; it should be {' or '.join(map(repr, get_args(Roots)))}")
    if isinstance(model, Parser) and device is not None:
        raise ValueError(f"device is {device!r}, but the model is loaded: it stays where it is")
    loaded = model if isinstance(model, Parser) else load(model, device or "auto")
    gold = read_treebank(data_path(os.fspath(file)), roots)
    watched = list(loaded._model.watch().check(gold, warn_at_caller))
    return evaluate_model(loaded._model, watched, punctuation=punctuation)
