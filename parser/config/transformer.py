"""How a pretrained transformer reads words, as a config says it. The text under a field documents it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from parser.system.settings import Count, Settings

Trained = Literal["frozen", "lora", "all"]


class LoraSettings(Settings):
    """With `train: lora`: low-rank matrices that are added to those of the transformer (Hu et al. 2022)."""

    rank: int = Field(8, gt=0, le=1024)
    """Of the matrices."""
    alpha: int = Field(16, gt=0, le=65_536)
    """Their product is multiplied by alpha / rank."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """On the input of the matrices."""


class TransformerSettings(Settings):
    """A pretrained transformer, whose output at the pieces of a word is another vector of the word. Needs
    `pip install -e '.[transformers]'`."""

    model: str
    """Folder of a model in the format of Hugging Face's transformers, with its weights as safetensors and a
    `tokenizer.json`; or the name of one on their hub, which is downloaded."""
    layers: int = Field(4, gt=0, le=200)
    """The last layers, whose outputs are averaged with learned weights (Peters et al. 2018, equation 1)."""
    pooling: Literal["mean", "first", "last"] = "mean"
    """The vector of a word is that of its first or last piece, or the mean of all."""
    train: Trained = "frozen"
    """What is trained of the transformer. `frozen`: nothing; the vectors are computed once and kept in the
    cache, in half precision. `lora`: see `lora`. `all`: all weights."""
    learning_rate: float = Field(5e-5, gt=0)
    """Of the transformer after its warm-up; those of the other weights are in `training.learning_rate`, whose
    decay is that of the transformer, too."""
    warmup_epochs: float = Field(1.0, ge=0, le=1_000_000_000)
    """Epochs over which this learning rate increases linearly from 0."""
    layer_decay: float = Field(1.0, gt=0, le=1)
    """The learning rate of each layer of the transformer is this times that of the layer above it."""
    max_pieces: Count = 512
    """A sentence of more pieces is read in overlapping windows of this many, or of as many as the transformer
    can read."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """On the vectors of words. The transformer's own dropout, where it is trained, is that of its config."""
    gradient_checkpointing: bool = False
    """Whether the activations of the transformer are computed again for the gradient instead of being kept:
    less memory, and about a third slower."""
    lora: LoraSettings = LoraSettings()
