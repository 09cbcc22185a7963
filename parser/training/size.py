"""Refuses networks that do not fit into memory, and names the setting that makes them large."""

from __future__ import annotations

from typing import Any

import torch

from parser.config import ParserSettings
from parser.config_file import flat
from parser.machine import device_memory
from parser.parsing.model import Model
from parser.treebank.vocabulary import PRETRAINED, Vocabulary

COPIES = 4
"""Tensors for each weight: the weight, its gradient, and the two moving averages of Adam."""
BYTES = 4


def refuse_too_large(
    settings: ParserSettings, vocabulary: Vocabulary, vector_size: int, device: torch.device
) -> None:
    """Raises ValueError, with the setting to lower, if the weights do not fit into the device's memory.

    vector_size: size of the pretrained vectors, 0 if there are none.
    """
    weights = _weights(settings, vocabulary, vector_size)
    needed, there = COPIES * BYTES * weights, device_memory(device)
    if needed > there:
        heaviest = _heaviest(settings, vocabulary, vector_size)
        raise ValueError(
            f"parser.network.{heaviest} is too large: {weights:,} weights take {needed / 2**30:,.1f} GiB to "
            f"train, and there are {there / 2**30:,.1f} GiB"
        )


def _weights(settings: ParserSettings, vocabulary: Vocabulary, vector_size: int) -> int:
    """The number of weights that the network would have."""
    with torch.device("meta"):
        words = len(vocabulary.columns[PRETRAINED]) - 1 if PRETRAINED in vocabulary.columns else 0
        vectors = torch.empty(words, vector_size) if words else None
        network = Model.build(settings, vocabulary, torch.device("meta"), vectors).network
    return sum(weight.numel() for weight in network.parameters())


def _heaviest(settings: ParserSettings, vocabulary: Vocabulary, vector_size: int) -> str:
    """The setting that saves the most weights if it is halved."""
    sizes = {
        key: value
        for key, value in flat(settings.network.model_dump()).items()
        if isinstance(value, int) and not isinstance(value, bool) and value > 1
    }

    def halved(key: str) -> int:
        network = settings.network.model_dump()
        _set(network, key.split("."), sizes[key] // 2)
        smaller = ParserSettings.model_validate({"system": settings.system, "network": network})
        return _weights(smaller, vocabulary, vector_size)

    return min(sizes, key=halved)


def _set(content: dict[str, Any], keys: list[str], value: int) -> None:
    *sections, last = keys
    for section in sections:
        content = content[section]
    content[last] = value
