"""What `POST /v1/parse` takes and answers. OpenAPI shows these texts."""

from __future__ import annotations

from typing import Annotated, Required

from pydantic import BaseModel, ConfigDict, Field, model_validator, with_config
from typing_extensions import TypedDict  # pydantic reads no older ones

from parser.text.reading import TextFormat

Values = Annotated[list[str], Field(min_length=1, fail_fast=True)]
INPUTS = "texts", "sentences", "conllu"


@with_config(ConfigDict(extra="forbid"))
class GivenSentence(TypedDict, total=False):
    """The words of a sentence, and what is known of each; `_` for nothing."""

    # A body may have a hundred thousand of them, which as objects of a class would take seconds.
    words: Required[Values]
    upos: Values | None
    xpos: Values | None
    feats: Values | None
    lemmas: Values | None
    sent_id: str | None
    text: str | None


class ParseRequest(BaseModel):
    """One of texts, sentences and conllu."""

    model_config = ConfigDict(extra="forbid")

    model: str | None = Field(None, description="The name of a model; that of the default if there is none")
    texts: list[str] | None = Field(
        None, description="Texts that are divided into sentences and words", fail_fast=True
    )
    text_format: TextFormat = Field("raw", description="Of the texts: where sentences, or words, end")
    sentences: list[GivenSentence] | None = Field(
        None, description="Sentences that are divided into words", fail_fast=True
    )
    conllu: str | None = Field(None, description="Sentences in CoNLL-U")
    probabilities: bool = Field(False, description="Whether the probability of each arc is wanted")

    @model_validator(mode="after")
    def _one_input(self) -> ParseRequest:
        if sum(getattr(self, name) is not None for name in INPUTS) != 1:
            raise ValueError(f"give one of {', '.join(INPUTS)}")
        return self


class AnsweredToken(BaseModel):
    """A token of a text, which has one word or, if it is a multiword token, several."""

    form: str
    start: int = Field(description="Characters of the text before it")
    end: int
    words: int = Field(description="How many words it has")


class AnsweredSentence(BaseModel):
    """Word 1 is the first one, head 0 is the root. What is not known is left out."""

    input: int | None = Field(None, description="Number of its text in the request, from 0")
    sent_id: str | None = Field(
        None, description="Of a text the number of the sentence in it, from 1; of others the given one"
    )
    text: str | None = None
    tokens: list[AnsweredToken] | None = Field(None, description="Only of texts")
    words: list[str]
    upos: list[str] | None = None
    xpos: list[str] | None = None
    feats: list[str] | None = None
    lemmas: list[str] | None = None
    heads: list[int]
    labels: list[str]
    probabilities: list[float] | None = None


class ParseAnswer(BaseModel):
    model: str
    sentences: list[AnsweredSentence]
    warnings: list[str] | None = Field(None, description="If the input lacks what the model reads")


class Problem(BaseModel):
    """Why there is no other answer."""

    detail: str
