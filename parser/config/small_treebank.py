"""The settings of a config for small treebanks, and applying them to a treebank of a given size."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

from pydantic import Field, create_model

from parser.config.dotted_keys import flat, set_in
from parser.system.settings import Count, Settings
from parser.treebank.size import TreebankSize

if TYPE_CHECKING:
    from parser.config.settings import Config


class SmallTreebankSettings(Settings):
    """Settings that change for a treebank with few words. They do not apply with `initial_model`, whose
    network is kept."""

    words: Count
    """A treebank is small if its training trees have fewer words than this. The words of files that can be
    read only once, such as pipes, are not counted; such a treebank is taken to be large."""
    steps: Count
    """A small treebank is trained for as many epochs as this number of steps needs, but for at least
    `training.epochs`. A step is one batch. The calculation assumes full batches, so an epoch may have one
    more, smaller batch."""
    set: dict[str, Any] = Field({})
    """Settings for small treebanks, by their full names. They override the config and `--set`. Settings of a
    section that is null have no effect. `--set small_treebank=null` turns the section off."""


def of_size(config: Config, size: TreebankSize | None) -> Config:
    """The config for a treebank of this size, without the section `small_treebank`.

    size: the size of the training trees; None if they cannot be counted, in which case the treebank is taken
    to be large. Raises ValidationError for invalid settings.
    """
    rule = config.small_treebank
    if rule is None:
        return config
    content = {**config.model_dump(mode="json"), "small_treebank": None}
    if size is None or size.words >= rule.words or config.initial_model is not None:
        return type(config).model_validate(content)
    for key, value in deepcopy(rule.set).items():
        set_in(content, key, value)
    content["small_treebank"] = None  # also if the rule sets it
    # Validated alone: contradictions with other sections may depend on the epochs.
    section = create_model("Section", training=(type(config.training), ...))
    found: Any = section.model_validate({"training": content["training"]})
    training = found.training
    counted = size.words if training.batch_unit == "words" else size.sentences
    batches = max(1, -(-counted // training.batch_size))
    set_in(content, "training.epochs", max(training.epochs, -(-rule.steps // batches)))
    return type(config).model_validate(content)


def changed_settings(config: Config, own: Config) -> str:
    """The settings that `of_size` changed, as text; empty if it changed none.

    config: with the section `small_treebank`. own: what `of_size` made of it.
    """
    assert config.small_treebank
    before, now = flat(config.model_dump()), flat(own.model_dump())
    wanted = [f"{name}." for name in ("training.epochs", *config.small_treebank.set)]
    # A section may be replaced as a whole, or removed.
    keys = dict.fromkeys(key for name in wanted for key in (now | before) if f"{key}.".startswith(name))
    changed = [key for key in keys if before.get(key) != now.get(key)]
    return ", ".join(f"{key} {now[key]}" if key in now else f"no {key}" for key in changed)
