"""Refusing networks that do not fit into memory, with the name of the setting that makes them large."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from parser.config.dotted_keys import flat, set_in
from parser.config.settings import ParserSettings
from parser.networks.shapes import without_values
from parser.parsing.model import new_network, system_of
from parser.system.machine import device_memory
from parser.transitions.inventory import Inventory
from parser.treebank.vocabulary import PRETRAINED, Vocabulary

if TYPE_CHECKING:
    from parser.transformer.pretrained import PretrainedTransformer

COPIES = 4
"""Tensors for each weight: the weight, its gradient, and the two moving averages of Adam."""
BYTES = 4


def refuse_too_large(
    settings: ParserSettings,
    vocabulary: Vocabulary,
    vector_size: int,
    transformer: PretrainedTransformer | None,
    device: torch.device,
) -> None:
    """Raises ValueError, with the setting to lower, if the weights do not fit into the device's memory.

    vector_size: size of the pretrained vectors, 0 if there are none. transformer: the one in the settings.
    """

    def weights_of(own: ParserSettings) -> tuple[int, int]:
        return _weights(own, vocabulary, vector_size, transformer)

    weights, trained = weights_of(settings)
    needed, there = BYTES * (weights + (COPIES - 1) * trained), device_memory(device)
    if needed > there:
        without = settings.network.model_copy(update={"transformer": None})
        parser_alone, _ = weights_of(settings.model_copy(update={"network": without}))
        is_the_transformer = weights > 2 * parser_alone
        heaviest = "transformer.model" if is_the_transformer else _heaviest(settings, weights_of)
        raise ValueError(
            f"parser.network.{heaviest} is too large: {weights:,} weights take {needed / 2**30:,.1f} GiB to "
            f"train, and there are {there / 2**30:,.1f} GiB"
        )


def _weights(
    settings: ParserSettings,
    vocabulary: Vocabulary,
    vector_size: int,
    transformer: PretrainedTransformer | None,
) -> tuple[int, int]:
    """The number of weights that the network would have, and how many of them are trained."""
    words = len(vocabulary.columns[PRETRAINED]) - 1 if PRETRAINED in vocabulary.columns else 0
    transitions = len(Inventory.of(system_of(settings), vocabulary))
    with without_values():
        vectors = torch.empty(words, vector_size) if words else None
        network = new_network(settings.network, vocabulary, transitions, vectors, transformer)
    frozen = network.tokens.transformer.frozen_weights().values() if network.tokens.transformer else []
    weights = sum(weight.numel() for weight in network.parameters())
    return weights, weights - sum(weight.numel() for weight in frozen)


def _heaviest(settings: ParserSettings, weights_of: Callable[[ParserSettings], tuple[int, int]]) -> str:
    """The setting that saves the most weights when halved."""
    sizes = {
        key: value
        for key, value in flat(settings.network.model_dump()).items()
        if isinstance(value, int)
        and not isinstance(value, bool)
        and value > 1
        and not key.startswith("transformer.")  # these hardly change the size of the transformer
    }

    def halved(key: str) -> int:
        network = settings.network.model_dump()
        set_in(network, key, sizes[key] // 2)
        smaller = ParserSettings.model_validate({"system": settings.system, "network": network})
        return weights_of(smaller)[0]

    return min(sizes, key=halved)
