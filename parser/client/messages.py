"""The types of requests and answers. Unknown values are left out of answers.

Written by scripts/write_client.py from the description of the service. Do not edit.
"""

from __future__ import annotations

from typing import Literal, Required, TypedDict


class AnsweredAlternative(TypedDict, total=False):
    """A possible arc to a word, whether in the tree or not."""

    head: Required[int]
    label: Required[str]
    probability: Required[float]
    """The probability of the head, by the scorer of arcs alone."""


class AnsweredSentence(TypedDict, total=False):
    """A sentence and its tree. Word 1 is the first word, head 0 is the root. Unknown fields are left out."""

    input: int | None
    """Number of its text in the request, from 0."""
    sent_id: str | None
    """For a text, the number of the sentence in it, from 1; otherwise the given sent_id."""
    text: str | None
    tokens: list[AnsweredToken] | None
    """Only for texts."""
    words: Required[list[str]]
    upos: list[str] | None
    xpos: list[str] | None
    feats: list[str] | None
    lemmas: list[str] | None
    heads: Required[list[int]]
    labels: Required[list[str]]
    probabilities: list[float] | None
    tag_probabilities: TagProbabilities | None
    alternatives: list[list[AnsweredAlternative]] | None
    """The most probable heads of each word; none if the sentence is too long for the scorer."""
    violations: list[str] | None
    """The limits that are broken at each word, such as not-root; left out if none is."""


class AnsweredToken(TypedDict, total=False):
    """A token of a text. It consists of one word or, if it is a multiword token, of several."""

    form: Required[str]
    start: Required[int]
    """Number of characters before it in the text."""
    end: Required[int]
    words: Required[int]
    """Number of words that it consists of."""


class GivenSentence(TypedDict, total=False):
    """The words of a sentence, and known columns. Unknown values are `_`, or null in heads and labels."""

    words: Required[list[str]]
    upos: list[str] | None
    xpos: list[str] | None
    feats: list[str] | None
    lemmas: list[str] | None
    heads: list[int | None] | None
    labels: list[str | None] | None
    sent_id: str | None
    text: str | None


class ParseAnswer(TypedDict, total=False):
    model: Required[str]
    sentences: Required[list[AnsweredSentence]]
    warnings: list[str] | None
    """Warnings, if the input lacks what the model reads."""


class ParseRequest(TypedDict, total=False):
    """A request contains exactly one of texts, sentences and conllu."""

    model: str | None
    """The name of a model; without it, the default model is used."""
    texts: list[str] | None
    """Texts, which are split into sentences and words."""
    text_format: Literal["raw", "wrapped", "one-paragraph-per-line", "one-sentence-per-line", "tokenized"]
    """Format of the texts: where sentences or words end."""
    sentences: list[GivenSentence] | None
    """Sentences that are already split into words."""
    conllu: str | None
    """Sentences in CoNLL-U."""
    probabilities: bool
    """Whether to return the probability of each arc, and of each predicted tag and lemma."""
    alternatives: int
    """How many probable heads to return for each word."""
    keep: Literal["given"] | None
    """given: heads and labels in sentences and conllu stay, missing ones are predicted."""
    non_projective: Literal["refuse", "given"]
    """Whether a given arc that crosses other arcs is refused, or put back after parsing."""
    at_most_one: list[str]
    """Labels that each head has on at most one dependent, subtypes included."""
    not_root: list[str]
    """UPOS tags of words that are not the root if another word can be."""
    constraints: Literal["learned", "none"]
    """learned: trees that have what those of train never have are changed, where possible."""


class Problem(TypedDict, total=False):
    """Why the request failed."""

    detail: Required[str]
    status: int | None
    """Only in the last line of NDJSON: the status of an error after the first sentence."""


class TagProbabilities(TypedDict, total=False):
    """The probabilities of predicted tags, features and lemmas; 1 where another value was given."""

    upos: list[float] | None
    xpos: list[float] | None
    feats: list[float] | None
    lemmas: list[float] | None
