"""Applying the section `small_treebank` of a config, which depends on the size of its treebank."""

from __future__ import annotations

from pathlib import Path

from parser.config.data_folder import data_path
from parser.config.settings import Config
from parser.config.small_treebank import of_size
from parser.treebank.size import TreebankSize, size_of


def for_its_treebank(config: Config) -> Config:
    """The config for its treebank, without the section `small_treebank`.

    Raises what `size_of` and `of_size` raise.
    """
    return of_size(config, _training_size(config) if config.small_treebank else None)


def _training_size(config: Config) -> TreebankSize | None:
    """The size of the training treebanks; None if a file is missing, or can be read only once."""
    paths = [data_path(path) for path in config.treebank.train_files]
    if not all(Path(path).is_file() for path in paths):
        return None
    # `train_sentences` limits the first file only.
    limits = [config.treebank.train_sentences, *[None] * (len(paths) - 1)]
    sizes = [size_of(path, most) for path, most in zip(paths, limits, strict=True)]
    return TreebankSize(sum(size.sentences for size in sizes), sum(size.words for size in sizes))
