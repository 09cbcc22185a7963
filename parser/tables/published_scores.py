"""Scores of other parsers, as published by their authors, from a file that the user names."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from parser.evaluation.measures import TextMeasure
from parser.models.model_card import Given
from parser.system.files import content_of
from parser.system.settings import fault_lines

Percent = Annotated[float, Field(ge=0, le=100)]


class PublishedScores(BaseModel):
    """Scores on the test sets of treebanks."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(min_length=1)]
    """The name of the parser."""
    source: str
    """Where the scores are published."""
    scores: dict[str, dict[Given, dict[TextMeasure, Percent]]]
    """The scores by treebank, such as UD_Wolof-WTB, by what the parser was given, and by measure."""

    def las(self, treebank: str, given: Given) -> float | None:
        """The LAS on a treebank; None if it is not published."""
        return self.scores.get(treebank, {}).get(given, {}).get("las")


def read_published(path: Path) -> PublishedScores:
    """The scores in a JSON file. Raises ValueError, OSError."""
    try:
        return PublishedScores.model_validate_json(content_of(path))
    except ValidationError as error:
        raise ValueError(f"{path}: {'; '.join(fault_lines(error))}") from None
