"""The pretrained transformer of a training run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parser.config import Config, data_path
from parser.console import say
from parser.parsing.model import Model
from parser.parsing.transformer_files import refuse_missing_libraries
from parser.treebank.vocabulary import WordSource

if TYPE_CHECKING:
    from parser.transformer.pretrained import PretrainedTransformer


def pretrained_transformer(config: Config, initial: Model | None) -> PretrainedTransformer | None:
    """That of the config; of a model that training begins with, if there is one.

    Raises ValueError if it can not be read.
    """
    settings = config.parser.network.transformer
    if settings is None:
        return None
    refuse_missing_libraries()
    from parser.transformer.pretrained import read_pretrained

    if initial and (encoder := initial.network.tokens.transformer):
        if encoder.settings.model != settings.model:
            say(f"the transformer is that of {config.initial_model}, not parser.network.transformer.model")
        return encoder.present()
    return read_pretrained(data_path(settings.model))


def word_source(transformer: PretrainedTransformer | None) -> WordSource | None:
    """Raises ValueError if the transformer's tokenizer is broken."""
    if transformer is None:
        return None
    from parser.transformer.pieces import PieceTokenizer

    return PieceTokenizer(transformer.tokenizer)
