"""The choice of the trained weights of a pretrained transformer, and their learning rates."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field
from torch import Tensor

from parser.system.settings import Count, Settings

if TYPE_CHECKING:
    from parser.networks.transformer.pretrained import PretrainedTransformer

LAYER = re.compile(r"\blayers?\.(\d+)\.")
"""Finds the number of the layer in the name of a weight."""
LORA = "lora_"
ENABLE_CHECKPOINTING = "activation_checkpointing_enable"
"""The library's method; it has another name in older versions."""


Trained = Literal["frozen", "lora", "all"]


class LoraSettings(Settings):
    """Low-rank matrices that are added to the matrices of the transformer (Hu et al. 2022), for `train:
    lora`."""

    rank: int = Field(8, gt=0, le=1024)
    """Rank of the low-rank matrices."""
    alpha: int = Field(16, gt=0, le=65_536)
    """Scale of the low-rank matrices: their product is multiplied by alpha / rank."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout on the input of the low-rank matrices."""


class TransformerSettings(Settings):
    """A pretrained transformer. Its output at the pieces of a word gives an additional vector for the word.
    Needs the extra `transformers`."""

    model: str
    """Folder of a model in the format of Hugging Face's transformers, with its weights as safetensors and a
    `tokenizer.json`; or the name of a model on the Hugging Face hub, which is downloaded."""
    layers: int = Field(4, gt=0, le=200)
    """Number of layers, counted from the last, whose outputs are averaged with learned weights (Peters et al.
    2018, equation 1)."""
    pooling: Literal["mean", "first", "last"] = "mean"
    """How the vector of a word is computed: the mean of its pieces, or its first or last piece."""
    train: Trained = "frozen"
    """Which weights of the transformer are trained. `frozen`: none; the vectors are computed once and cached
    in half precision. `lora`: low-rank matrices, see `lora`. `all`: all weights."""
    learning_rate: float = Field(5e-5, gt=0)
    """Learning rate of the transformer after its warm-up. `training.learning_rate` sets that of the other
    weights; its decay also applies to the transformer."""
    warmup_epochs: float = Field(1.0, ge=0, le=1_000_000_000)
    """Number of epochs over which the learning rate of the transformer increases linearly from 0."""
    layer_decay: float = Field(1.0, gt=0, le=1)
    """Factor between the learning rates of adjacent layers: the rate of a layer of the transformer is this
    times the rate of the layer above it."""
    max_pieces: Count = 512
    """Largest number of pieces to read at once. A longer sentence is read in overlapping windows of this many
    pieces, or of as many as the transformer can read."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout on the vectors of words. If the transformer is trained, the dropout inside it is set by its own
    config."""
    gradient_checkpointing: bool = False
    """Whether to recompute the activations of the transformer for the gradient instead of keeping them. This
    needs less memory and is slower."""
    lora: LoraSettings = LoraSettings()


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
    if settings.gradient_checkpointing:
        enable = getattr(model, ENABLE_CHECKPOINTING, None) or model.gradient_checkpointing_enable
        enable({"use_reentrant": False})
    return model


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
