"""Which trees a parser learns from, as a config says it. The text under a field is its documentation."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from parser.system.settings import Count, Settings

Files = Annotated[tuple[str, ...], Field(strict=False, min_length=1)]
FileOrFiles = Annotated[
    Annotated[str, Tag("<file>")] | Annotated[Files, Tag("<files>")],
    Discriminator(lambda value: "<files>" if isinstance(value, list | tuple) else "<file>"),
]
"""With an error of one of them only."""


class SilverSettings(Settings):
    """Trees that another parser has made (self-training, or distillation from a larger parser)."""

    files: Files
    """CoNLL-U files, as `stack-parser parse` writes them."""
    epochs: Count | None = None
    """In how many epochs, from the first on, silver trees are trained on; by default in all."""
    share: float = Field(1.0, gt=0, le=1)
    """The part of the silver trees that an epoch draws, anew in each."""
    min_probability: float = Field(0.0, ge=0, le=1)
    """Sentences are left out if the mean probability of their arcs is lower: `ArcProbability`, which
    `stack-parser parse --scores` writes."""


class TreebankSettings(Settings):
    train: FileOrFiles
    """CoNLL-U or CoNLL-X file; ${PARSER_DATA} stands for the data folder, `data` unless it is set. A list of
    files trains on several treebanks: dev and test are taken to be of the first, and so is what is parsed
    without `--treebank`."""
    train_sentences: Count | None = None
    """Only so many sentences from the beginning of `train`, or of its first file, are trained on, for
    learning curves over its size. A tokenizer is trained on all of this file."""
    sampling_exponent: float = Field(1.0, ge=0, le=1)
    """An epoch draws as many trees as several treebanks have together, from each in proportion to its number
    of trees to this power. 1: by size, every tree once. 0: evenly, so that small treebanks are repeated."""
    silver: SilverSettings | None = None
    """Trees that another parser has made, trained on in addition."""
    dev: str
    """The model with the best LAS on it is kept."""
    test: str | None = None
    """Scored once, at the end, with the best model."""
    roots: Literal["refuse", "attach-to-first"] = "refuse"
    """What happens to a tree with several roots, as in treebanks from CoNLL-X. `refuse`: it is an error.
    `attach-to-first`: the other roots become dependents of the first, labelled `dep`."""
    non_projective: Literal["lift", "drop"] = "lift"
    """What happens to non-projective training trees. `lift`: pseudo-projective transformation (Nivre &
    Nilsson 2005), undone after parsing. `drop`: they are left out."""

    @property
    def train_files(self) -> tuple[str, ...]:
        return (self.train,) if isinstance(self.train, str) else self.train

    @property
    def silver_files(self) -> tuple[str, ...]:
        return self.silver.files if self.silver else ()

    @property
    def files(self) -> tuple[str, ...]:
        """All that a run reads."""
        scored = (self.dev, self.test) if self.test else (self.dev,)
        return *self.train_files, *self.silver_files, *scored
