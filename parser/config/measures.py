"""The names of scores."""

from collections.abc import Collection
from typing import Literal, get_args

NAMES = {
    "tokens": "Tokens",
    "sentences": "Sentences",
    "words": "Words",
    "upos": "UPOS",
    "xpos": "XPOS",
    "ufeats": "UFeats",
    "alltags": "AllTags",
    "lemmas": "Lemmas",
    "uas": "UAS",
    "las": "LAS",
    "las_full": "LAS, full labels",
    "clas": "CLAS",
    "mlas": "MLAS",
    "blex": "BLEX",
}
"""As the literature calls them."""
Measure = Literal[
    "upos", "xpos", "ufeats", "alltags", "lemmas", "uas", "las", "las_full", "clas", "mlas", "blex"
]
MEASURES: dict[Measure, str] = {measure: NAMES[measure] for measure in get_args(Measure)}
TextMeasure = Literal[
    "tokens",
    "sentences",
    "words",
    "upos",
    "xpos",
    "ufeats",
    "alltags",
    "lemmas",
    "uas",
    "las",
    "clas",
    "mlas",
    "blex",
]
TEXT_MEASURES: dict[TextMeasure, str] = {measure: NAMES[measure] for measure in get_args(TextMeasure)}
"""Of parsed raw text, all as F1."""
ATTACHMENT: tuple[Measure, ...] = "uas", "las"
OF_COLUMNS: dict[Measure, set[str]] = {
    "upos": {"upos"},
    "xpos": {"xpos"},
    "ufeats": {"feats"},
    "alltags": {"upos", "xpos", "feats"},
    "lemmas": {"lemma"},
}
"""The columns that these scores compare, and nothing else."""
OF_PREDICTED: dict[Measure, str] = {
    "upos": "upos",
    "xpos": "xpos",
    "ufeats": "feats",
    "lemmas": "lemma",
    "mlas": "upos",
    "blex": "lemma",
}
"""Scores that say something about a parser which predicts a column."""


def shown(predicted: Collection[str]) -> tuple[Measure, ...]:
    """Those that a line about a parser has. predicted: the columns that it predicts."""
    return *ATTACHMENT, *(measure for measure, column in OF_PREDICTED.items() if column in predicted)
