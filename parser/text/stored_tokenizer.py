"""A tokenizer as the file of a model has it: JSON with the settings of its kind, and what was trained.

And which tokenizers were trained here, by this user: others are not trusted.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from pathlib import Path
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


def remember(content: bytes) -> bool:
    """Note that a tokenizer was trained here. Returns whether there is a folder to note it in.

    content: of its file.
    """
    place = _place(content)
    if place is None:
        return False
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
    except OSError:
        return False
    return True


def was_trained_here(content: bytes) -> bool:
    place = _place(content)
    return place is not None and place.is_file()


def _place(content: bytes) -> Path | None:
    """An empty file below XDG_STATE_HOME or ~/.local/state; None for a user without a home directory."""
    folder = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(folder):  # the XDG specification says to ignore relative paths
        try:
            folder = str(Path.home() / ".local" / "state")
        except RuntimeError:
            return None
    return Path(folder) / "stack-parser" / "tokenizers" / hashlib.sha256(content).hexdigest()
