"""The text of a treebank, from its comments `# text`, or from its forms and `SpaceAfter=No`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from parser.treebank.sentence import FORM, ID, MISC, NO_SPACE, RANGE_ID, WORD_ID, Sentence

PARAGRAPH_COMMENTS = "newpar", "newdoc"


class SurfaceToken(NamedTuple):
    """A token as it appears in the text: a word or a multiword token."""

    form: str
    space_after: bool
    words: int
    """Number of words in the token."""


def surface_tokens(sentence: Sentence) -> list[SurfaceToken]:
    """The tokens of a sentence with the lines of a treebank.

    Spaces are taken from the comment `# text` if it contains all forms in order.
    """
    tokens = list(_tokens_of_lines(sentence))
    return _as_in_text(tokens, _comment(sentence, "text")) or tokens


def has_text(sentence: Sentence) -> bool:
    """Whether a sentence says where its text has spaces."""
    is_joined = any(NO_SPACE in line for line in sentence.lines if not line.startswith("#"))
    return is_joined or _comment(sentence, "text") is not None


def begins_paragraph(sentence: Sentence) -> bool:
    return any(_comment(sentence, name) is not None for name in PARAGRAPH_COMMENTS)


def treebank_text(sentences: Iterable[Sentence]) -> str:
    """The text of all sentences, with a blank line before each new paragraph."""
    parts: list[str] = []
    for number, sentence in enumerate(sentences):
        if number and begins_paragraph(sentence):
            parts.append("\n\n")
        parts += (f"{token.form}{' ' if token.space_after else ''}" for token in surface_tokens(sentence))
    return "".join(parts).rstrip() + "\n"


def divided_text(sentences: Iterable[Sentence]) -> str:
    """The tokens of all sentences, separated by blanks, with a blank line after each sentence."""
    tokens = (" ".join(token.form for token in surface_tokens(sentence)) for sentence in sentences)
    return "".join(f"{line}\n\n" for line in tokens)


def _tokens_of_lines(sentence: Sentence) -> Iterator[SurfaceToken]:
    covered = 0  # the last word of a multiword token
    for line in sentence.lines:
        columns = line.rstrip("\r\n").split("\t")
        if line.startswith("#") or len(columns) <= MISC:
            continue
        space_after = NO_SPACE not in columns[MISC].split("|")
        if span := RANGE_ID.fullmatch(columns[ID]):
            covered = int(span[2])
            yield SurfaceToken(columns[FORM], space_after, covered - int(span[1]) + 1)
        elif WORD_ID.fullmatch(columns[ID]) and int(columns[ID]) > covered:
            yield SurfaceToken(columns[FORM], space_after, 1)


def _as_in_text(tokens: list[SurfaceToken], text: str | None) -> list[SurfaceToken]:
    """The tokens with the spaces of the text; empty if the text does not consist of their forms."""
    if text is None:
        return []
    spaced, end = [], 0
    for token in tokens:
        if not text.startswith(token.form, end):
            return []
        end += len(token.form)
        rest = text[end:].lstrip()
        # The comment does not contain what follows the sentence.
        space_after = token.space_after if not rest else len(rest) < len(text) - end
        spaced.append(token._replace(space_after=space_after))
        end = len(text) - len(rest)
    return spaced if end == len(text) else []


def _comment(sentence: Sentence, name: str) -> str | None:
    """The value of a comment, empty if it has no value; None if there is no such comment."""
    for line in sentence.lines:
        key, _, value = line[1:].partition("=")
        # In `# newdoc id = 1`, the name is only the first word before the equals sign.
        if line.startswith("#") and key.split()[:1] == [name]:
            return value.strip()
    return None
