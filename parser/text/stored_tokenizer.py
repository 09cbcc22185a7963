"""A tokenizer as the file of a model has it: JSON with the settings of its kind, and what was trained."""

from __future__ import annotations

import base64
import json
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from parser.text.tokenizer import TokenizerKind
from parser.text.tokenizer_kinds import AnyTokenizer


class StoredTokenizer(NamedTuple):
    settings: TokenizerKind
    content: bytes = b""
    """What the kind opens; nothing for kinds that are not trained."""


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
    """Inverse of `tokenizer_as_json`. Raises ValueError, as ValidationError if the JSON is another one."""
    found = _TokenizerFile.model_validate_json(content)
    return StoredTokenizer(found.settings, base64.b64decode(found.content, validate=True))
