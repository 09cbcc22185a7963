"""What a config says of small treebanks, and the config that it becomes for a treebank of some size."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

from pydantic import Field, create_model

from parser.system.settings import Count, Settings
from parser.treebank.size import TreebankSize

if TYPE_CHECKING:
    from parser.config.settings import Config


class SmallTreebankSettings(Settings):
    """What changes for a treebank of few words; not with `initial_model`, whose network stays."""

    words: Count
    """A treebank with fewer words in its training trees is small. Files that can be read only once, such as
    pipes, are not counted and taken to be large."""
    steps: Count
    """A small treebank is trained for as many epochs as this many steps need, and at least for
    `training.epochs`. A step is one batch. Full batches are counted; an epoch may have a smaller one more."""
    set: dict[str, Any] = Field({})
    """Settings of small treebanks by their full names, which replace those of the config and of `--set`.
    Those of a section that is not there have no effect. `--set small_treebank=null` goes without them."""


def of_size(config: Config, size: TreebankSize | None) -> Config:
    """The config for a treebank of this size, without the section `small_treebank`.

    size: of the training trees; None if they cannot be counted, when the treebank is taken to be large.
    Raises ValidationError for settings that are not possible.
    """
    rule = config.small_treebank
    if rule is None:
        return config
    content = {**config.model_dump(mode="json"), "small_treebank": None}
    if size is None or size.words >= rule.words or config.initial_model is not None:
        return type(config).model_validate(content)
    for key, value in deepcopy(rule.set).items():
        _set(content, key, value)
    content["small_treebank"] = None  # also if the rule sets it
    # Alone: what contradicts it may depend on the epochs.
    section = create_model("Section", training=(type(config.training), ...))
    found: Any = section.model_validate({"training": content["training"]})
    training = found.training
    counted = size.words if training.batch_unit == "words" else size.sentences
    batches = max(1, -(-counted // training.batch_size))
    _set(content, "training.epochs", max(training.epochs, -(-rule.steps // batches)))
    return type(config).model_validate(content)


def _set(content: dict[str, Any], key: str, value: Any) -> None:
    *sections, name = key.split(".")
    for section in sections:
        if content.get(section, {}) is None:
            return
        content = content.setdefault(section, {})
    content[name] = value
