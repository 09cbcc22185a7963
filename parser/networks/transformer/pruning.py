"""A transformer without pieces that a language never uses: those with characters that train lacks."""

from __future__ import annotations

import json
import string
from collections.abc import Iterable, Mapping
from dataclasses import replace
from operator import itemgetter
from typing import Any

from tokenizers import Tokenizer

from parser.networks.transformer.architecture import KINDS
from parser.networks.transformer.pretrained import PretrainedTransformer

PIECE_OF_CONFIG = "_token_id"
"""The end of a config's keys whose value is the number of a piece."""
BLANK_OF_PIECE = "\N{LOWER ONE EIGHTH BLOCK}"
"""What sentencepiece writes for the blank before a word."""


def pruned(transformer: PretrainedTransformer, words: Iterable[str]) -> PretrainedTransformer:
    """The transformer with special pieces, single characters, and pieces of characters of the words alone.

    A word that consists of these characters, in any case, of digits and of marks is divided as before. A
    transformer whose pieces consist of bytes, or are made by merging others, stays as it is.
    """
    tokenizer, config = json.loads(transformer.tokenizer), json.loads(transformer.config)
    if tokenizer["model"]["type"] not in ("Unigram", "WordPiece"):
        return transformer
    known = _characters(Tokenizer.from_str(transformer.tokenizer), words)
    kept = _kept_pieces(tokenizer, config, known)
    numbers = {old: new for new, old in enumerate(kept)}
    config = {
        key: numbers.get(value) if key.endswith(PIECE_OF_CONFIG) else value for key, value in config.items()
    }
    config["vocab_size"] = len(kept)
    vectors = f"{KINDS[config['model_type']].words}.weight"
    _renumber(tokenizer, numbers)
    return replace(
        transformer,
        config=json.dumps(config, sort_keys=True),
        tokenizer=json.dumps(tokenizer, ensure_ascii=False),
        weights={**transformer.weights, vectors: transformer.weights[vectors][kept]},
    )


def _kept_pieces(tokenizer: Any, config: Mapping[str, Any], known: set[str]) -> list[int]:
    """The numbers of the pieces that stay, in order. known: characters."""
    model = tokenizer["model"]
    if model["type"] == "Unigram":
        pieces = dict(enumerate(piece for piece, _ in model["vocab"]))
        # An unknown character has a lower score than the piece with the lowest one.
        always = {min(model["vocab"], key=itemgetter(1))[0]}
    else:
        pieces = {number: piece for piece, number in model["vocab"].items()}
        always = set()
    always.update(each["content"] for each in tokenizer["added_tokens"])
    numbered = {config.get(key) for key in config if key.endswith(PIECE_OF_CONFIG)}
    prefix = model.get("continuing_subword_prefix", BLANK_OF_PIECE)

    def stays(number: int, piece: str) -> bool:
        own = piece.removeprefix(prefix)
        return number in numbered or piece in always or len(own) <= 1 or known.issuperset(own)

    kept = {number for number, piece in pieces.items() if stays(number, piece)}
    # In RoBERTa and others, positions are counted from the number of the padding piece.
    kept |= set(range(1 + (config.get("pad_token_id") or 0)))
    # Pieces that were added after training.
    kept |= {each["id"] for each in tokenizer["added_tokens"] if each["id"] not in pieces}
    return sorted(kept)


def _characters(tokenizer: Tokenizer, words: Iterable[str]) -> set[str]:
    """Digits, marks, and the characters of the words as the tokenizer reads them, in any case."""
    variants = {each for word in words for each in (word, word.lower(), word.upper())}
    variants |= {string.digits, string.punctuation}
    if tokenizer.normalizer:
        variants = {tokenizer.normalizer.normalize_str(each) for each in variants}
    return set("".join(variants))


def _renumber(tokenizer: Any, numbers: Mapping[int, int]) -> None:
    """Give the pieces of a `tokenizer.json` new numbers; those without one are left out."""
    model = tokenizer["model"]
    if model["type"] == "Unigram":
        model["vocab"] = [pair for number, pair in enumerate(model["vocab"]) if number in numbers]
        model["unk_id"] = numbers.get(model["unk_id"])
    else:
        vocabulary = model["vocab"].items()
        model["vocab"] = {piece: numbers[number] for piece, number in vocabulary if number in numbers}
    for each in tokenizer["added_tokens"]:
        each["id"] = numbers[each["id"]]
    _renumber_special(tokenizer["post_processor"], numbers)


def _renumber_special(processor: Any, numbers: Mapping[int, int]) -> None:
    """Renumber the special pieces around a text."""
    if not processor:
        return
    for each in processor.get("processors", ()):
        _renumber_special(each, numbers)
    for each in processor.get("special_tokens", {}).values():
        each["ids"] = [numbers[number] for number in each["ids"]]
    for end in ("sep", "cls"):  # of the kinds of BERT and RoBERTa
        if end in processor:
            processor[end][1] = numbers[processor[end][1]]
