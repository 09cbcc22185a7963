"""Refusing networks that do not fit into memory, with the name of the setting that makes them large."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from parser.config.file import flat, set_in
from parser.models.model import new_network, system_of
from parser.models.settings import ParserSettings
from parser.networks.stack_parser import StackParser
from parser.networks.without_values import without_values
from parser.system.machine import device_memory
from parser.transitions.inventory import Inventory
from parser.treebank.vocabulary import PRETRAINED, Vocabulary

if TYPE_CHECKING:
    from parser.networks.transformer.pretrained import PretrainedTransformer

COPIES = 4
"""Tensors for each trained weight: the weight, its gradient, and the two moving averages of Adam."""
BYTES = 4


def refuse_too_large(
    settings: ParserSettings,
    vocabulary: Vocabulary,
    vector_size: int,
    transformer: PretrainedTransformer | None,
    device: torch.device,
    has_average: bool,
) -> None:
    """Raises ValueError, with the setting to lower, if the weights do not fit into the device's memory.

    vector_size: size of the pretrained vectors, 0 if there are none. transformer: the one in the settings.
    has_average: whether training keeps the moving average of the weights.
    """

    def network_of(own: ParserSettings) -> StackParser:
        return _network(own, vocabulary, vector_size, transformer)

    def bytes_of(weights: Iterable[Tensor]) -> int:
        copies = COPIES + has_average
        return BYTES * sum(weight.numel() * (copies if weight.requires_grad else 1) for weight in weights)

    network = network_of(settings)
    needed, there = bytes_of(network.parameters()), device_memory(device)
    if needed > there:
        weights = sum(weight.numel() for weight in network.parameters())
        heaviest = _heaviest(settings, network_of, bytes_of)
        raise ValueError(
            f"parser.network.{heaviest} is too large: {weights:,} weights take {needed / 2**30:,.1f} GiB to "
            f"train, and there are {there / 2**30:,.1f} GiB"
        )


def _network(
    settings: ParserSettings,
    vocabulary: Vocabulary,
    vector_size: int,
    transformer: PretrainedTransformer | None,
) -> StackParser:
    """The network without values."""
    words = len(vocabulary.columns[PRETRAINED]) - 1 if PRETRAINED in vocabulary.columns else 0
    transitions = len(Inventory.of(system_of(settings), vocabulary))
    with without_values():
        vectors = torch.empty(words, vector_size) if words else None
        return new_network(settings.network, vocabulary, transitions, vectors, transformer)


def _heaviest(
    settings: ParserSettings,
    network_of: Callable[[ParserSettings], StackParser],
    bytes_of: Callable[[Iterable[Tensor]], int],
) -> str:
    """The setting that needs more than half of the memory, or else the one that saves most when halved."""
    network = network_of(settings)
    tokens, half = network.tokens, bytes_of(network.parameters()) / 2
    if tokens.transformer and bytes_of(tokens.transformer.parameters()) > half:
        return "transformer.model"
    if bytes_of(tokens.pretrained_weights()) > half:
        return "pretrained"
    sizes = {
        key: value
        for key, value in flat(settings.network.model_dump()).items()
        if isinstance(value, int)
        and not isinstance(value, bool)
        and value > 1
        and not key.startswith("transformer.")  # these hardly change the size of the transformer
    }

    def halved(key: str) -> int:
        smaller = settings.network.model_dump()
        set_in(smaller, key, sizes[key] // 2)
        own = ParserSettings.model_validate({"system": settings.system, "network": smaller})
        return bytes_of(network_of(own).parameters())

    return min(sizes, key=halved)
