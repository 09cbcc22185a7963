"""The names of scores."""

from typing import Literal

Measure = Literal[
    "upos", "xpos", "ufeats", "alltags", "lemmas", "uas", "las", "las_full", "clas", "mlas", "blex"
]
MEASURES: dict[Measure, str] = {
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
ATTACHMENT: tuple[Measure, ...] = "uas", "las"
OF_PREDICTED: tuple[Measure, ...] = "upos", "xpos", "ufeats", "lemmas", "mlas", "blex"
"""Scores that say something about a parser that predicts tags or lemmas."""


def shown(predicts_tags: bool) -> tuple[Measure, ...]:
    """Those that a line about a parser has."""
    return (*ATTACHMENT, *OF_PREDICTED) if predicts_tags else ATTACHMENT
