"""The choice of the trained weights of a pretrained transformer, and their learning rates."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from parser.batching.functional import dropout
from parser.networks.settings import Trained, TransformerSettings

if TYPE_CHECKING:
    from parser.networks.transformer.pretrained import PretrainedTransformer

LAYER = re.compile(r"\blayers?\.(\d+)\.")
"""Finds the number of the layer in the name of a weight."""
LORA = "lora_"
ENABLE_CHECKPOINTING = "activation_checkpointing_enable"
"""The library's method; it has another name in older versions."""


def transformer_to_train(settings: TransformerSettings, pretrained: PretrainedTransformer) -> Any:
    """The library's transformer, with adapters if the settings ask for them.

    Only trained weights require gradients.
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
    for name, module in list(model.named_modules()):
        if type(module) is nn.Dropout:
            model.set_submodule(name, FastDropout(module.p))
    if settings.gradient_checkpointing:
        enable = getattr(model, ENABLE_CHECKPOINTING, None) or model.gradient_checkpointing_enable
        enable({"use_reentrant": False})
    return model


class FastDropout(nn.Dropout):
    """Dropout that is also fast on a CPU. The library asks it for `p`."""

    def forward(self, input: Tensor) -> Tensor:
        return dropout(input, self.p, self.training)


def is_frozen(name: str, trained: Trained) -> bool:
    """Whether a weight is not trained. name: the name of the weight in the transformer."""
    return trained != "all" and LORA not in name


def frozen_weights(transformer: Any, trained: Trained) -> dict[str, Tensor]:
    """The weights that are not trained, by their names in a transformer without adapters."""
    return {
        _without_adapters(name): weight
        for name, weight in transformer.state_dict().items()
        if is_frozen(name, trained)
    }


def weights_without_adapters(transformer: Any) -> dict[str, Tensor]:
    """All weights except those of adapters, on the host."""
    return {
        _without_adapters(name): weight.detach().cpu()
        for name, weight in transformer.state_dict().items()
        if LORA not in name
    }


def _without_adapters(name: str) -> str:
    """The name that a weight has in a transformer without adapters."""
    return name.replace(".base_layer.", ".")


def learning_rates(transformer: Any, settings: TransformerSettings) -> dict[Tensor, float]:
    """The learning rates of the trained weights after warm-up.

    Raises ValueError if rates are to decay by layer, but the names of the weights contain no layer numbers.
    """
    count = transformer.config.num_hidden_layers
    trained = {name: weight for name, weight in transformer.named_parameters() if weight.requires_grad}
    if settings.layer_decay < 1 and trained and not any(map(LAYER.search, trained)):
        raise ValueError(
            "parser.network.transformer.layer_decay: the layers of this transformer have no numbers; "
            "leave it out"
        )
    rates: dict[Tensor, float] = {}
    for name, weight in trained.items():
        rates[weight] = settings.learning_rate * settings.layer_decay ** layers_above(name, count)
    return rates


def layers_above(name: str, count: int) -> int:
    """The number of layers above a weight. count: layers of the transformer; all are above the embeddings."""
    if layer := LAYER.search(name):
        return count - 1 - int(layer[1])
    is_last_norm = "norm" in name.lower() and "embeddings" not in name
    return 0 if is_last_norm else count
