"""The kinds of tokenizers, and how a model stores a tokenizer: as JSON with its settings and content.

To add a kind, add a file to this folder, see `tokenizer.py`, and a line here. The two kinds for text that is
already divided by blanks and lines are here; they need no training and no packages.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Discriminator, Tag

from parser.text.bilstm.kind import BiLSTMKind
from parser.text.spacy_rules import Spacy
from parser.text.tokenizer import Paragraph, Token, TokenizedSentence, TokenizerKind

LINE, WORD = re.compile(r"[^\n]+"), re.compile(r"\S+")


class Lines(TokenizerKind):
    """For text that is already divided: each line is a sentence, and blanks separate its words."""

    kind: Literal["lines"]

    def opened(self, content: bytes) -> DividedText:
        return DividedText(by_lines=True)


class Blanks(TokenizerKind):
    """For text that is already divided: blanks and line ends separate words, and blank lines separate
    sentences. Each word may therefore be on its own line."""

    kind: Literal["blanks"]

    def opened(self, content: bytes) -> DividedText:
        return DividedText(by_lines=False)


class DividedText:
    """A tokenizer that follows the blanks and lines of a text. It finds no paragraphs."""

    reads_divided_text = True

    def __init__(self, by_lines: bool):
        """by_lines: whether each line is a sentence; else each paragraph is one."""
        self._by_lines = by_lines

    def sentences(self, paragraphs: Iterable[Paragraph], is_sentence: bool) -> Iterator[TokenizedSentence]:
        """See `Tokenizer`."""
        for text, offset in paragraphs:
            lines = (line.span() for line in LINE.finditer(text))
            for start, end in lines if self._by_lines else [(0, len(text))]:
                words = list(WORD.finditer(text, start, end))
                tokens = tuple(
                    Token(word[0], offset + word.start(), offset + word.end(), (word[0],), True)
                    for word in words
                )
                if tokens:
                    yield TokenizedSentence(tokens, " ".join(word[0] for word in words), False)


AnyKind = (
    Annotated[BiLSTMKind, Tag("<bilstm>")]
    | Annotated[Spacy, Tag("<spacy>")]
    | Annotated[Lines, Tag("<lines>")]
    | Annotated[Blanks, Tag("<blanks>")]
)
"""The tags are the values of `kind`, in brackets."""
KINDS = tuple(get_args(kind)[1].tag.strip("<>") for kind in get_args(AnyKind))


def _tag(settings: Any) -> str | None:
    """The tag by which pydantic chooses the class of the given settings."""
    kind = settings.get("kind") if isinstance(settings, dict) else getattr(settings, "kind", None)
    return f"<{kind}>" if isinstance(kind, str) else None


AnyTokenizer = Annotated[
    AnyKind,
    Discriminator(
        _tag,
        custom_error_type="tokenizer_kind",
        custom_error_message=f"input should be {{kind: NAME}} with one of the names {', '.join(KINDS)}",
    ),
]
"""The type of a setting that holds a tokenizer of any kind."""


@dataclass(frozen=True)
class StoredTokenizer:
    settings: TokenizerKind
    contents: Mapping[str, bytes] = field(default_factory=dict)
    """What the kind opens, by treebank; empty for kinds that are not trained."""

    def content(self, treebank: str | None = None) -> bytes:
        """treebank: None for the first. Raises ValueError if there is no tokenizer of the treebank."""
        if not self.contents:
            return b""
        name = next(iter(self.contents)) if treebank is None else treebank
        if name not in self.contents:
            raise ValueError(f"no tokenizer of the treebank {name}, but of {', '.join(self.contents)}")
        return self.contents[name]


class _TokenizerFile(BaseModel):
    """The JSON of `tokenizer_as_json`."""

    model_config = ConfigDict(strict=True, extra="forbid")

    settings: AnyTokenizer
    contents: dict[str, str]


def tokenizer_as_json(tokenizer: StoredTokenizer) -> bytes:
    contents = {name: base64.b64encode(each).decode("ascii") for name, each in tokenizer.contents.items()}
    told = {"settings": tokenizer.settings.model_dump(), "contents": contents}
    return (json.dumps(told, indent=2) + "\n").encode()


def tokenizer_from_json(content: bytes) -> StoredTokenizer:
    """Inverse of `tokenizer_as_json`. Raises ValueError, or ValidationError for JSON of another structure."""
    stored = _TokenizerFile.model_validate_json(content)
    contents = {name: base64.b64decode(each, validate=True) for name, each in stored.contents.items()}
    return StoredTokenizer(stored.settings, contents)
