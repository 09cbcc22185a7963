"""The settings of the tokenizer of this program."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from pydantic import Field

from parser.system.settings import Count, Size
from parser.text.bilstm.arrays import BiLSTMTokenizer
from parser.text.bilstm.content import tokenizer_in
from parser.text.tokenizer import TokenizerKind

STEP = re.compile(r"^step (\d+) of (\d+)", re.MULTILINE)
SCORES = re.compile(r"^dev F1: .*$", re.MULTILINE)


class BiLSTMKind(TokenizerKind):
    """Trained on the text of the treebank: a BiLSTM over characters divides tokens, and one over these finds
    sentence ends, multiword tokens and tokens with blanks."""

    is_trained = True

    kind: Literal["bilstm"]
    character_size: Size = 32
    """Size of a character's embedding."""
    character_hidden_size: Size = 64
    """Hidden size of the LSTM over characters, in each direction."""
    form_size: Size = 64
    """Size of a form's embedding."""
    hidden_size: Size = 96
    """Hidden size of the LSTM over the divided text, in each direction."""
    dropout: float = Field(0.3, ge=0, lt=1)
    """Dropout of the states of both LSTMs and of the embeddings of characters, in training."""
    unknown_characters: float = Field(0.03, ge=0, lt=1)
    """Share of the characters that are unknown in training."""
    unknown_forms: float = Field(0.6, ge=0, lt=1)
    """Share of the forms that are unknown in training."""
    learning_rate: float = Field(0.003, gt=0, le=1)
    """The greatest; it decreases linearly to 0."""
    epochs: Count = 40
    """Number of epochs, unless they are fewer steps than `least_steps` or more than `most_steps`."""
    least_steps: Count = 600
    """Small treebanks get more epochs."""
    most_steps: Count = 4_500
    """A step reads 3,000 characters and takes a tenth of a second, alongside the training of the parser."""
    seed: int = Field(1, ge=0, le=1_000_000_000)
    """Of the initial weights, of dropout, and of the order of the windows."""

    def refuse_unsound(self, content: bytes) -> None:
        """See `TokenizerKind`."""
        tokenizer_in(content, self)

    def opened(self, content: bytes) -> BiLSTMTokenizer:
        return BiLSTMTokenizer(tokenizer_in(content, self))

    def train(self, train: Path, dev: Path | None) -> bytes:
        """See `TokenizerKind`."""
        from parser.text.bilstm.training import train as trained  # needs PyTorch

        return trained(self, train, dev)

    def steps(self, batches: int) -> int:
        """The number of steps. batches: of an epoch."""
        return min(self.most_steps, max(self.least_steps, self.epochs * batches))

    def share_done(self, log: str) -> float:
        """See `TokenizerKind`."""
        steps = STEP.findall(log)
        return int(steps[-1][0]) / int(steps[-1][1]) if steps else 0.0

    def dev_scores(self, log: str) -> str:
        """See `TokenizerKind`."""
        scores = SCORES.findall(log)
        return f", {scores[-1]}" if scores else ""
