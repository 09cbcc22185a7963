"""The requests and answers of `POST /v1/parse`. OpenAPI shows these texts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Annotated, Any, Required

from pydantic import BaseModel, ConfigDict, Field, SkipValidation, model_validator, with_config
from typing_extensions import TypedDict  # pydantic does not support typing's own

from parser.parsing.constraints import MAX_LIMITS
from parser.parsing.options import Keep, LearnedOrNone, NonProjective, ParseOptions
from parser.text.reading import TextFormat

Values = Annotated[list[str], Field(min_length=1, fail_fast=True)]
Names = Annotated[list[str], Field(fail_fast=True, max_length=MAX_LIMITS)]
Head = Annotated[int, Field(ge=0)]
MOST_ALTERNATIVES = 10
"""The maximum for each word, because an answer is kept until it is written."""
INPUTS = "texts", "sentences", "conllu"


@with_config(ConfigDict(extra="forbid", strict=True))
class GivenSentence(TypedDict, total=False):
    """The words of a sentence, and known columns. Unknown values are `_`, or null in heads and labels."""

    words: Required[Values]
    upos: Values | None
    xpos: Values | None
    feats: Values | None
    lemmas: Values | None
    heads: Annotated[list[Head | None], Field(min_length=1, fail_fast=True)] | None
    labels: Annotated[list[str | None], Field(min_length=1, fail_fast=True)] | None
    sent_id: str | None
    text: str | None


def _option(name: str, **bounds: Any) -> Any:
    """The field of an option of a parse, with its default and its description."""
    [option] = [each for each in fields(ParseOptions) if each.name == name]
    default = list(option.default) if isinstance(option.default, tuple) else option.default
    return Field(default, description=option.metadata["description"], **bounds)


class ParseRequest(BaseModel):
    """A request contains exactly one of texts, sentences and conllu."""

    model_config = ConfigDict(extra="forbid", strict=True)

    model: str | None = Field(None, description="The name of a model; without it, the default model is used")
    texts: list[str] | None = Field(
        None, description="Texts, which are split into sentences and words", fail_fast=True
    )
    text_format: TextFormat = Field("raw", description="Format of the texts: where sentences or words end")
    sentences: Annotated[Iterable[GivenSentence] | None, SkipValidation] = Field(
        None, description="Sentences that are already split into words"
    )
    """Validated while they are read, see `GivenSentences`: there may be a hundred thousand of them."""
    conllu: str | None = Field(None, description="Sentences in CoNLL-U")
    probabilities: bool = _option("probabilities")
    alternatives: int = _option("alternatives", ge=0, le=MOST_ALTERNATIVES)
    keep: Keep = _option("keep")
    non_projective: NonProjective = _option("non_projective")
    at_most_one: Names = _option("at_most_one")
    not_root: Names = _option("not_root")
    constraints: LearnedOrNone = _option("constraints")

    @model_validator(mode="after")
    def _one_input(self) -> ParseRequest:
        if sum(getattr(self, name) is not None for name in INPUTS) != 1:
            raise ValueError(f"give one of {', '.join(INPUTS)}")
        return self

    @model_validator(mode="after")
    def _heads_are_kept(self) -> ParseRequest:
        if self.keep and self.texts is not None:
            raise ValueError("keep is for sentences and conllu: texts have no heads")
        if self.keep is None and self.non_projective != "refuse":
            raise ValueError('non_projective is for arcs that are kept: add "keep": "given"')
        return self

    @property
    def options(self) -> ParseOptions:
        names = {option.name for option in fields(ParseOptions)} & type(self).model_fields.keys()
        return ParseOptions(**{name: getattr(self, name) for name in names})


class AnsweredToken(BaseModel):
    """A token of a text. It consists of one word or, if it is a multiword token, of several."""

    form: str
    start: int = Field(description="Number of characters before it in the text")
    end: int
    words: int = Field(description="Number of words that it consists of")


class AnsweredAlternative(BaseModel):
    """A possible arc to a word, whether in the tree or not."""

    head: int
    label: str
    probability: float = Field(description="The probability of the head, by the scorer of arcs alone")


class TagProbabilities(BaseModel):
    """The probabilities of predicted tags, features and lemmas; 1 where another value was given."""

    upos: list[float] | None = None
    xpos: list[float] | None = None
    feats: list[float] | None = None
    lemmas: list[float] | None = None


class AnsweredSentence(BaseModel):
    """A sentence and its tree. Word 1 is the first word, head 0 is the root. Unknown fields are left out."""

    input: int | None = Field(None, description="Number of its text in the request, from 0")
    sent_id: str | None = Field(
        None, description="For a text, the number of the sentence in it, from 1; otherwise the given sent_id"
    )
    text: str | None = None
    tokens: list[AnsweredToken] | None = Field(None, description="Only for texts")
    words: list[str]
    upos: list[str] | None = None
    xpos: list[str] | None = None
    feats: list[str] | None = None
    lemmas: list[str] | None = None
    heads: list[int]
    labels: list[str]
    probabilities: list[float] | None = None
    tag_probabilities: TagProbabilities | None = None
    alternatives: list[list[AnsweredAlternative]] | None = Field(
        None,
        description="The most probable heads of each word; none if the sentence is too long for the scorer",
    )
    violations: list[str] | None = Field(
        None, description="The limits that are broken at each word, such as not-root; left out if none is"
    )


class ParseAnswer(BaseModel):
    model: str
    sentences: list[AnsweredSentence]
    warnings: list[str] | None = Field(None, description="Warnings, if the input lacks what the model reads")


class Problem(BaseModel):
    """Why the request failed."""

    detail: str
    status: int | None = Field(
        None, description="Only in the last line of NDJSON: the status of an error after the first sentence"
    )
