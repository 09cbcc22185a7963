"""The weight of the parser's own arcs relative to the arc scorer, fitted on dev at the end of training."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from parser.evaluation.evaluate import evaluate
from parser.evaluation.scores import Scores
from parser.models.model import Model
from parser.models.model_format import SCORES
from parser.parsing.reparsing import with_bonus
from parser.system.console import say
from parser.treebank.sentence import Sentence

BONUSES = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
BONUS_WITHOUT_DEV = 2.0
"""A value in the middle of `BONUSES`: without dev, there is nothing to fit the bonus on."""


def fit_bonus(model: Model, dev: Sequence[Sentence], folder: Path) -> Scores:
    """Set `ArcSettings.bonus` of the model in a folder to the value with the best LAS on dev, and its scores.

    The bonus is None, for the parser's own trees, if no other value is better. Returns the scores on dev.
    """
    own = evaluate(with_bonus(model, None), dev)
    best, bonus = own, None
    for each in BONUSES:
        scores = evaluate(with_bonus(model, each), dev)
        if scores.las > best.las:
            best, bonus = scores, each
    set_bonus(model, bonus, folder, dev=best.as_dict())
    found = "the scorer of arcs does not improve it"
    if bonus is not None:
        found = f"{best.las:.2f} with the scorer of arcs and a bonus of {bonus:g} for the parser's own arcs"
    say(f"dev LAS of the parser's own trees {own.las:.2f}; {found}")
    return best


def set_bonus(model: Model, bonus: float | None, folder: Path, **scores: Any) -> None:
    """Replace the model in a folder by one with this bonus. scores: changes to its `scores.json`."""
    told = json.loads((folder / SCORES).read_text(encoding="utf-8"))
    with_bonus(model, bonus).save(folder, told | scores)
