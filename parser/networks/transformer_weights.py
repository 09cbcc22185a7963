"""Which weights of a pretrained transformer are trained, and how fast."""

from __future__ import annotations

import re
from typing import Any

from torch import Tensor

from parser.config.settings import Trained, TransformerSettings
from parser.transformer.pretrained import PretrainedTransformer

LAYER = re.compile(r"\blayers?\.(\d+)\.")
"""The number of its layer in the name of a weight."""
LORA = "lora_"
ENABLE_CHECKPOINTING = "activation_checkpointing_enable"
"""The library's method; older versions have another name."""


def transformer_to_train(settings: TransformerSettings, pretrained: PretrainedTransformer) -> Any:
    """The library's transformer, with adapters if there are to be some.

    Only what is trained of it needs gradients.
    """
    model: Any = pretrained.build(shared=settings.train != "all")
    if settings.train != "all":
        model.requires_grad_(False)
    if settings.train == "frozen":
        return model.eval()
    if settings.train == "lora":
        from peft import LoraConfig, inject_adapter_in_model

        lora = settings.lora
        adapter = LoraConfig(
            r=lora.rank, lora_alpha=lora.alpha, lora_dropout=lora.dropout, target_modules="all-linear"
        )
        model = inject_adapter_in_model(adapter, model)
    if settings.gradient_checkpointing:
        enable = getattr(model, ENABLE_CHECKPOINTING, None) or model.gradient_checkpointing_enable
        enable({"use_reentrant": False})
    return model


def is_frozen(name: str, trained: Trained) -> bool:
    """name: of a weight of the transformer."""
    return trained != "all" and LORA not in name


def frozen_weights(transformer: Any, trained: Trained) -> dict[str, Tensor]:
    """Those that are not trained, by the names that they have without adapters."""
    return {
        _without_adapters(name): weight
        for name, weight in transformer.state_dict().items()
        if is_frozen(name, trained)
    }


def weights_without_adapters(transformer: Any) -> dict[str, Tensor]:
    """All but those of adapters, on the host."""
    return {
        _without_adapters(name): weight.detach().cpu()
        for name, weight in transformer.state_dict().items()
        if LORA not in name
    }


def _without_adapters(name: str) -> str:
    """The name that a weight has in a transformer without adapters."""
    return name.replace(".base_layer.", ".")


def learning_rates(transformer: Any, settings: TransformerSettings) -> dict[Tensor, float]:
    """Of the trained weights, after warm-up.

    Raises ValueError for a decay by layers whose layers cannot be told apart.
    """
    count = transformer.config.num_hidden_layers
    trained = {name: weight for name, weight in transformer.named_parameters() if weight.requires_grad}
    if settings.layer_decay < 1 and trained and not any(map(LAYER.search, trained)):
        raise ValueError(
            "parser.network.transformer.layer_decay: the layers of this transformer have no numbers; "
            "leave it out"
        )
    found: dict[Tensor, float] = {}
    for name, weight in trained.items():
        found[weight] = settings.learning_rate * settings.layer_decay ** layers_above(name, count)
    return found


def layers_above(name: str, count: int) -> int:
    """Of the weight of a transformer of so many layers; embeddings stand below all of them."""
    if layer := LAYER.search(name):
        return count - 1 - int(layer[1])
    is_last_norm = "norm" in name.lower() and "embeddings" not in name
    return 0 if is_last_norm else count
