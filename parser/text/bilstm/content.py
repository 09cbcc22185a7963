"""A trained tokenizer as bytes: safetensors, whose metadata hold what it knows of its treebank."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from safetensors.numpy import load, save

from parser.models.model_files import HEADER_LENGTH
from parser.models.weight_shapes import Shape, linear_shapes, lstm_shapes
from parser.networks.settings import DIRECTIONS
from parser.runtime.reference import Floats
from parser.system.settings import fault_lines
from parser.text.bilstm.multiword_tokens import MOST_WORDS, MultiwordTokens
from parser.text.bilstm.units import CATEGORIES, DECISIONS, UNIT_FEATURES, Alphabet
from parser.treebank.vocabulary import BREAKS, Lexicon

if TYPE_CHECKING:
    from parser.text.bilstm.kind import BiLSTMKind

ALPHABET = "alphabet"
NUL = "\0"
StoredWords = Annotated[tuple[str, ...], Field(min_length=2, max_length=MOST_WORDS)]


class TrainedTokenizer(NamedTuple):
    alphabet: Alphabet
    weights: dict[str, Floats]
    """By their names in `TokenizerNetwork`."""


class _Alphabet(BaseModel):
    model_config = ConfigDict(extra="forbid")

    characters: tuple[Annotated[str, Field(min_length=1, max_length=1)], ...]
    forms: tuple[str, ...]
    words: dict[str, StoredWords]
    endings: dict[str, StoredWords]


def as_content(tokenizer: TrainedTokenizer) -> bytes:
    """Inverse of `tokenizer_in`, apart from rounding weights to float16."""
    characters, forms, multiword = tokenizer.alphabet
    told = {
        "characters": characters.strings,
        "forms": forms.strings,
        "words": multiword.words,
        "endings": multiword.endings,
    }
    weights = {name: np.ascontiguousarray(each, np.float16) for name, each in tokenizer.weights.items()}
    content: bytes = save(weights, {ALPHABET: json.dumps(told, ensure_ascii=False)})
    return content


def tokenizer_in(content: bytes, settings: BiLSTMKind) -> TrainedTokenizer:
    """Read a tokenizer, perhaps from a stranger. Raises ValueError unless it is sound."""
    try:
        weights = {name: each.astype(np.float32) for name, each in load(content).items()}
        length = int.from_bytes(content[:HEADER_LENGTH], "little")
        header = json.loads(content[HEADER_LENGTH : HEADER_LENGTH + length])
        told = _read(header["__metadata__"][ALPHABET])
        alphabet = Alphabet(
            Lexicon(told.characters), Lexicon(told.forms), MultiwordTokens(told.words, told.endings)
        )
        _refuse_unsound(alphabet, weights, settings)
    except Exception as error:  # the library's have no common class
        why = str(error).strip().partition("\n")[0]
        advice = "get the model again, or train another tokenizer"
        raise ValueError(f"not a sound tokenizer: {why}; {advice}") from None
    return TrainedTokenizer(alphabet, weights)


def _read(told: str) -> _Alphabet:
    try:
        return _Alphabet.model_validate_json(told)
    except ValidationError as error:
        raise ValueError("; ".join(fault_lines(error, ALPHABET))) from None


def _refuse_unsound(alphabet: Alphabet, weights: dict[str, Floats], settings: BiLSTMKind) -> None:
    expected = _shapes(settings, len(alphabet.characters), len(alphabet.forms))
    if unexpected := sorted(expected.keys() ^ weights.keys()):
        raise ValueError(f"the weight {unexpected[0]} is missing or unknown")
    for name, shape in expected.items():
        if weights[name].shape != shape:
            raise ValueError(f"the weight {name} has the shape {weights[name].shape}, not {shape}")
        if not np.isfinite(weights[name]).all():
            raise ValueError(f"the weight {name} is not finite")
    for lexicon in (alphabet.characters, alphabet.forms):
        if len(set(lexicon.strings)) + 1 < len(lexicon):
            raise ValueError("a string occurs twice")
    multiword = alphabet.multiword_tokens
    for of in (multiword.words, multiword.endings):
        for token, (first, *others) in of.items():
            whole = (token, *others) if of is multiword.endings else (token, first, *others)
            if not all(whole) or any({*BREAKS, NUL} & set(each) for each in (*whole, first)):
                raise ValueError(f"the multiword token {token[:20]!r} has an empty word, a tab or a line end")


def _shapes(settings: BiLSTMKind, characters: int, forms: int) -> dict[str, Shape]:
    """Of the weights of `TokenizerNetwork`."""
    size, of_form = settings.character_size, settings.form_size
    hidden, of_units = settings.character_hidden_size, settings.hidden_size
    inputs = 2 * hidden + of_form + UNIT_FEATURES
    return {
        "characters.weight": (characters, size),
        "categories.weight": (len(CATEGORIES), size),
        "forms.weight": (forms, of_form),
        **lstm_shapes("character_lstm", size, hidden, 1, DIRECTIONS),
        **lstm_shapes("unit_lstm", inputs, of_units, 1, DIRECTIONS),
        **linear_shapes("divides", 2 * hidden, 1),
        **linear_shapes("decides", 2 * of_units + inputs + 2 * hidden, len(DECISIONS)),
    }
