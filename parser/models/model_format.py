"""The format of a model: the names of its files, their size limits, and the number of the format.

docs/model-format.md describes the files. Code that reads them must expect files from strangers.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel, ConfigDict

from parser.models.settings import ParserSettings
from parser.system.console import shortened
from parser.system.version import __version__

FORMAT = 1
"""Changes when programs could misread each other's models. No other format is read."""
SETTINGS, VOCABULARY, WEIGHTS, COLUMN_SHARES = (
    "settings.json",
    "vocabulary.json",
    "weights.safetensors",
    "columns.json",
)
NEEDED = SETTINGS, VOCABULARY, WEIGHTS, COLUMN_SHARES
"""Files that every model must have."""
SCORES = "scores.json"
"""For people. Only code that adds to it reads it."""
TOKENIZER = "tokenizer.json"
"""Read when text is parsed. That of a trained kind contains a binary of another library."""
TRANSFORMER_CONFIG, TRANSFORMER_TOKENIZER, TRANSFORMER_WEIGHTS = (
    "transformer/config.json",
    "transformer/tokenizer.json",
    "transformer/model.safetensors",
)
TRANSFORMER_CLASS = "transformer/tokenizer_config.json"
"""For Hugging Face's library, which can read the folder, too. This program does not read the file."""
FILES = (
    *NEEDED,
    SCORES,
    TOKENIZER,
    TRANSFORMER_CONFIG,
    TRANSFORMER_TOKENIZER,
    TRANSFORMER_CLASS,
    TRANSFORMER_WEIGHTS,
)
CARD, LICENCE = "README.md", "LICENSE.txt"
DOCUMENTS = CARD, LICENCE
"""For people and hubs: what the model is, and the licence of the data that it was trained on."""
MAX_BYTES = {
    CARD: 1 << 20,
    LICENCE: 1 << 20,
    SCORES: 1 << 20,
    SETTINGS: 1 << 18,
    COLUMN_SHARES: 1 << 18,
    VOCABULARY: 1 << 28,
    TOKENIZER: 1 << 26,
    TRANSFORMER_CONFIG: 1 << 20,
    TRANSFORMER_TOKENIZER: 1 << 28,
    TRANSFORMER_CLASS: 1 << 10,
}
"""Size limits of the texts. Vocabularies with pretrained vectors, and tokenizers, take some ten million."""


class OtherFormatError(Exception):
    """The model may be sound, but this program does not read its format."""


class _AnySettingsFile(BaseModel):
    """The fields that are expected in settings of any format."""

    format: Any = None
    version: Any = None


class _SettingsFile(BaseModel):
    """The JSON of `settings_as_json`."""

    model_config = ConfigDict(strict=True, extra="forbid")

    format: int
    version: str
    """The version of the program that wrote the file."""
    parser: ParserSettings


def settings_as_json(settings: ParserSettings) -> str:
    content = {"format": FORMAT, "version": __version__, "parser": settings.model_dump()}
    return json.dumps(content, indent=2) + "\n"


def settings_from_json(text: str) -> ParserSettings:
    """Inverse of `settings_as_json`. Raises ValidationError, and OtherFormatError."""
    file = _AnySettingsFile.model_validate_json(text)
    found = file.format
    if type(found) is not int or found != FORMAT:
        named = "a format that it does not name" if found is None else f"format {shortened(repr(found))}"
        by = f", {shortened(file.version)}," if isinstance(file.version, str) else ""
        raise OtherFormatError(
            f"{SETTINGS} has {named}, and this program reads format {FORMAT} only: parse with the "
            f"version{by} that made the model, or train it again"
        )
    return _SettingsFile.model_validate_json(text).parser
