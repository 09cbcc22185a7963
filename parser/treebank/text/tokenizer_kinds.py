"""The kinds of tokenizers, and how a model stores a tokenizer: as JSON with its settings and content.

To add a kind, add a file to this folder, see `tokenizer.py`, and a line here.
"""

from __future__ import annotations

import base64
import json
from typing import Annotated, Any, NamedTuple, get_args

from pydantic import BaseModel, ConfigDict, Discriminator, Tag

from parser.treebank.text.divided import Blanks, Lines
from parser.treebank.text.spacy_rules import Spacy
from parser.treebank.text.tokenizer import TokenizerKind
from parser.treebank.text.udpipe import UDPipe

AnyKind = (
    Annotated[UDPipe, Tag("<udpipe>")]
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


class StoredTokenizer(NamedTuple):
    settings: TokenizerKind
    content: bytes = b""
    """The content that the kind opens; empty for kinds that are not trained."""


class _TokenizerFile(BaseModel):
    """The JSON of `tokenizer_as_json`."""

    model_config = ConfigDict(strict=True, extra="forbid")

    settings: AnyTokenizer
    content: str


def tokenizer_as_json(tokenizer: StoredTokenizer) -> bytes:
    told = {
        "settings": tokenizer.settings.model_dump(),
        "content": base64.b64encode(tokenizer.content).decode("ascii"),
    }
    return (json.dumps(told, indent=2) + "\n").encode()


def tokenizer_from_json(content: bytes) -> StoredTokenizer:
    """Inverse of `tokenizer_as_json`. Raises ValueError, or ValidationError for JSON of another structure."""
    found = _TokenizerFile.model_validate_json(content)
    return StoredTokenizer(found.settings, base64.b64decode(found.content, validate=True))
