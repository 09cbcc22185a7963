"""How much the parser's own arcs count beside the scorer of arcs, fitted on dev at the end of training."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from parser.evaluation.evaluate import evaluate
from parser.evaluation.scores import Scores
from parser.parsing.model import Model
from parser.parsing.model_format import SETTINGS, settings_as_json
from parser.parsing.reparsing import with_bonus
from parser.system.files import write_atomically
from parser.treebank.sentence import Sentence

BONUSES = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def fit_bonus(model: Model, dev: Sequence[Sentence], folder: Path) -> Scores:
    """Set `ArcSettings.bonus` of the model in a folder to the one with the best LAS on dev.

    None, for the parser's own trees, if no other is better. Returns the scores on dev.
    """
    best, bonus = evaluate(with_bonus(model, None), dev), None
    for each in BONUSES:
        scores = evaluate(with_bonus(model, each), dev)
        if scores.las > best.las:
            best, bonus = scores, each
    write_atomically(folder / SETTINGS, settings_as_json(with_bonus(model, bonus).settings).encode())
    return best
