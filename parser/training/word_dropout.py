"""Word dropout: words, tags and features are randomly replaced by the unknown value (Iyyer et al. 2015)."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from parser.batching.device import to_device
from parser.training.config import TrainingSettings
from parser.treebank.sentence import WORD_COLUMNS
from parser.treebank.tokens import Tokens
from parser.treebank.vocabulary import UNKNOWN, Vocabulary


class WordDropout:
    """Replaces values of tokens at random, with a probability for each value of each column."""

    def __init__(
        self, vocabulary: Vocabulary, train: Tokens, settings: TrainingSettings, device: torch.device
    ):
        self._rates: dict[int, Tensor] = {}
        """The probability of each entry of a lexicon [entries], by column."""
        self._part_rates: dict[int, float] = {}
        """The probability of each part, by column, for columns whose strings have parts."""
        for column, (name, lexicon) in enumerate(vocabulary.columns.items()):
            known = WORD_COLUMNS.get(name)
            if known is None:  # characters, pretrained vectors and treebanks are not replaced
                continue
            if known.kind == "features":
                self._part_rates[column] = settings.feature_dropout
            elif known.kind == "word":
                counts = train.values[:, column].bincount(minlength=len(lexicon))
                self._rates[column] = to_device(word_rates(counts, settings), device)
            else:
                self._rates[column] = torch.full((len(lexicon),), settings.tag_dropout, device=device)

    def __call__(self, tokens: Tokens) -> Tokens:
        """The tokens after dropout. A feature is replaced for all words of the batch with the same FEATS."""
        values = tokens.values.clone()
        for column, rates in self._rates.items():
            replaced = _drawn(rates[values[:, column]])
            values[:, column] = values[:, column].masked_fill(replaced, UNKNOWN)
        parts = dict(tokens.parts)
        for column, rate in self._part_rates.items():
            if rate:
                strings = parts[column]
                replaced = _drawn(torch.full(strings.values.shape, rate, device=strings.values.device))
                parts[column] = replace(strings, values=strings.values.masked_fill(replaced, UNKNOWN))
        return tokens.replaced(values, parts)


def word_rates(counts: Tensor, settings: TrainingSettings) -> Tensor:
    """[words] The probability that each word is replaced. counts: [words] its occurrences in training."""
    rates = torch.where(counts == 1, settings.unknown_probability, 0.0)
    if settings.word_dropout:
        rates = rates.maximum(settings.word_dropout / (settings.word_dropout + counts))
    return rates


def _drawn(rates: Tensor) -> Tensor:
    """[n] bool, True with the probabilities `rates` [n]."""
    return torch.rand(rates.shape, device=rates.device) < rates
