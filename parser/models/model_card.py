"""The machine-readable part of a model card: the front matter of its README.md, as on Hugging Face's hub.

A card can come from a stranger: its content is only shown to people, not relied on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from parser.config.yaml_loading import BoundedLoader
from parser.models.model_files import CARD, ModelFiles, text_of
from parser.system.settings import fault_lines

FRONT_MATTER = re.compile(r"\ufeff?---[ \t\r]*\n(.*?\n)---[ \t\r]*(?:\n|\Z)", re.DOTALL)
Given = Literal["raw text", "gold tokens", "gold tokens and tags"]
"""The input of a parser, in the words of the cards."""
OF_TEXT: Final = "raw text"
OF_TOKENS: Final = "gold tokens"
OF_TAGS: Final = "gold tokens and tags"


class _CardPart(BaseModel):
    """A part of a card. Fields for the hub or other programs are ignored."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True)


class _Task(_CardPart):
    name: str = ""


class _Dataset(_CardPart):
    name: str = ""
    split: str = ""


class _Metric(_CardPart):
    type: str
    value: float


class CardResult(_CardPart):
    """Scores on a treebank."""

    task: _Task = _Task()
    dataset: _Dataset = _Dataset()
    metrics: list[_Metric]


class _IndexEntry(_CardPart):
    name: str = ""
    results: list[CardResult] = []


class ModelCard(_CardPart):
    license: str = ""
    license_name: str = ""
    """The name of a licence that the hub does not know."""
    model_index: list[_IndexEntry] = Field([], alias="model-index")

    @property
    def licence(self) -> str:
        """The licence of the data; empty if the card does not name it."""
        return " ".join((self.license_name or self.license).split())

    @property
    def results(self) -> Iterator[CardResult]:
        for entry in self.model_index:
            yield from entry.results

    def score(self, measure: str, given: str) -> float | None:
        """The first score of a measure for the given input, such as raw text; None if there is none.

        It is that on test, or on dev if there is no test.
        """
        for result in self.results:
            if result.task.name.endswith(given):
                for metric in result.metrics:
                    if metric.type == measure:
                        return metric.value
        return None


def read_card(files: ModelFiles) -> ModelCard | None:
    """The card of a model; None if it has none. Raises ValueError for one that cannot be read."""
    if not files.has(CARD):
        return None
    front_matter = FRONT_MATTER.match(text_of(files, CARD))
    try:
        content: Any = yaml.load(front_matter[1], Loader=BoundedLoader) if front_matter else {}
        return ModelCard.model_validate(content)
    except ValidationError as error:
        raise ValueError(f"{files.name}: {CARD}: {'; '.join(fault_lines(error))}") from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise ValueError(f"{files.name}: {CARD}: its beginning is not YAML") from error
