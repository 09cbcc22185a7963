"""Words, tags and features taken for unknown ones at random, so that the parser learns to do without them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from parser.config import TrainingSettings
from parser.treebank.ragged import Ragged
from parser.treebank.tokens import Tokens
from parser.treebank.vocabulary import FEATURES, PARTS, PRETRAINED, UNKNOWN, Vocabulary

WORDS = ("form", "lemma")


class Forgetting:
    """For each column of the tokens, how often each of its numbers becomes that of the unknown."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        train: Tokens,
        settings: TrainingSettings,
        device: torch.device,
        learnt: Sequence[str] = (),
    ):
        """learnt: columns that are not read, and so not forgotten."""
        self._rates: dict[int, Tensor] = {}
        """Of columns that are looked up, [entries]."""
        self._of_parts: dict[int, float] = {}
        for column, (name, lexicon) in enumerate(vocabulary.columns.items()):
            if name in PARTS:
                self._of_parts[column] = settings.feature_dropout if name == FEATURES else 0.0
            elif name in WORDS:
                counts = train.values[:, column].bincount(minlength=len(lexicon))
                self._rates[column] = word_rates(counts, settings).to(device)
            elif name != PRETRAINED and name not in learnt:
                self._rates[column] = torch.full((len(lexicon),), settings.tag_dropout, device=device)

    def __call__(self, tokens: Tokens) -> Tokens:
        """Features are forgotten for all words of a batch that have the same FEATS."""
        values = tokens.values.clone()
        for column, rates in self._rates.items():
            forgotten = _drawn(rates[values[:, column]])
            values[:, column] = values[:, column].masked_fill(forgotten, UNKNOWN)
        parts = dict(tokens.parts)
        for column, rate in self._of_parts.items():
            if rate:
                strings = parts[column]
                forgotten = _drawn(torch.full(strings.values.shape, rate, device=strings.values.device))
                parts[column] = Ragged(strings.values.masked_fill(forgotten, UNKNOWN), strings.lengths)
        return Tokens(Ragged(values, tokens.lengths), parts)


def word_rates(counts: Tensor, settings: TrainingSettings) -> Tensor:
    """[words] How often each is forgotten; counts: [words], how often training has it."""
    rates = torch.where(counts == 1, settings.unknown_probability, 0.0)
    if settings.word_dropout:
        rates = rates.maximum(settings.word_dropout / (settings.word_dropout + counts))
    return rates


def _drawn(rates: Tensor) -> Tensor:
    """bool, True as often as the rates [n] say."""
    return torch.rand(rates.shape, device=rates.device) < rates
