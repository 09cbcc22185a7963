"""The config that a config with a section `small_treebank` is for its treebank."""

from __future__ import annotations

from pathlib import Path

from parser.config.data_folder import data_path
from parser.config.settings import Config
from parser.config.small_treebank import of_size
from parser.treebank.size import TreebankSize, size_of


def for_its_treebank(config: Config) -> Config:
    """Without that section. Raises what `size_of` and `of_size` raise."""
    return of_size(config, _training_size(config) if config.small_treebank else None)


def _training_size(config: Config) -> TreebankSize | None:
    """None if a file is not there, or can be read only once."""
    paths = [data_path(path) for path in config.treebank.train_files]
    if not all(Path(path).is_file() for path in paths):
        return None
    # Only of the first file a part may be trained on.
    limits = [config.treebank.train_sentences, *[None] * (len(paths) - 1)]
    sizes = [size_of(path, most) for path, most in zip(paths, limits, strict=True)]
    return TreebankSize(sum(size.sentences for size in sizes), sum(size.words for size in sizes))
