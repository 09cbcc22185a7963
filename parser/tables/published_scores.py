"""Scores of other parsers, as their authors publish them: a file that the user names."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from parser.config.errors import fault_lines
from parser.config.measures import TextMeasure
from parser.parsing.model_card import Given

Percent = Annotated[float, Field(ge=0, le=100)]


class PublishedScores(BaseModel):
    """Scores on the test sets of treebanks."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(min_length=1)]
    """Of the parser."""
    source: str
    """Where its scores are published."""
    scores: dict[str, dict[Given, dict[TextMeasure, Percent]]]
    """By treebank, such as UD_Wolof-WTB; what the parser was given; and measure."""

    def las(self, treebank: str, given: Given) -> float | None:
        """None if it is not told."""
        return self.scores.get(treebank, {}).get(given, {}).get("las")


def read_published(path: Path) -> PublishedScores:
    """Raises ValueError, OSError."""
    try:
        return PublishedScores.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise ValueError(f"{path}: {'; '.join(fault_lines(error))}") from None
