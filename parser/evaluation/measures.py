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
"""The names of scores in the literature."""
TagMeasure = Literal["upos", "xpos", "ufeats", "alltags", "lemmas"]
Measure = Literal[TagMeasure, "uas", "las", "las_full", "clas", "mlas", "blex"]
MEASURES: dict[Measure, str] = {measure: NAMES[measure] for measure in get_args(Measure)}
TextMeasure = Literal["tokens", "sentences", "words", TagMeasure, "uas", "las", "clas", "mlas", "blex"]
TEXT_MEASURES: dict[TextMeasure, str] = {measure: NAMES[measure] for measure in get_args(TextMeasure)}
"""Scores of parsed raw text, all of them F1."""
ATTACHMENT: tuple[Measure, ...] = "uas", "las"
OF_COLUMNS: dict[Measure, set[str]] = {
    "upos": {"upos"},
    "xpos": {"xpos"},
    "ufeats": {"feats"},
    "alltags": {"upos", "xpos", "feats"},
    "lemmas": {"lemma"},
}
"""The columns that a score compares, for scores that compare nothing else."""
OF_PREDICTED: dict[Measure, str] = {
    "upos": "upos",
    "xpos": "xpos",
    "ufeats": "feats",
    "lemmas": "lemma",
    "mlas": "upos",
    "blex": "lemma",
}
"""Scores that are shown for a parser if it predicts the column."""


def shown(predicted: Collection[str]) -> tuple[Measure, ...]:
    """The scores to show in a line about a parser. predicted: the columns that it predicts."""
    return *ATTACHMENT, *(measure for measure, column in OF_PREDICTED.items() if column in predicted)
