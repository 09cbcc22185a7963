"""Renamed settings: an old name is refused with the new one, and files of older programs are still read."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

FORMER_NAMES = {
    "parser.network.sentence": "parser.network.sentence_encoder",
    "parser.network.shows_words": "parser.network.word_features",
    "parser.network.learns_tags": "parser.network.tags.predict",
    "parser.network.auxiliary_tags": "parser.network.tags.predict",
    "parser.network.action_size": "parser.network.transition_size",
    "training.betas": "training.optimizer.betas",
    "training.l2": "training.optimizer.weight_decay",
    "training.clip": "training.max_grad_norm",
    "training.most_words": "training.max_batch_words",
    "training.stop_after": "training.early_stopping_patience",
    "training.learning_rate.then": "training.learning_rate.decay",
    "training.learning_rate.smallest": "training.learning_rate.min_learning_rate",
}
"""New names of settings by their old ones."""


def new_name(key: str) -> str | None:
    """The name that a setting has now; None if `key` is no former name.

    key: as "training.clip"; sections of other configs may stand before it.
    """
    for former, now in FORMER_NAMES.items():
        if key == former:
            return now
        if key.endswith(f".{former}"):
            return key.removesuffix(former) + now
    return None


def with_new_names(config: Mapping[str, Any]) -> dict[str, Any]:
    """A training config, or a part of it with all its sections, in which no setting has a former name."""
    renamed = copy.deepcopy(dict(config))
    for former, now in FORMER_NAMES.items():
        *sections, name = former.split(".")
        section = _section(renamed, sections)
        if section is not None and name in section:
            *sections, new = now.split(".")
            _made_section(renamed, sections)[new] = section.pop(name)
    return renamed


def _section(config: dict[str, Any], names: list[str]) -> dict[str, Any] | None:
    section: Any = config
    for name in names:
        section = section.get(name) if isinstance(section, dict) else None
    return section if isinstance(section, dict) else None


def _made_section(config: dict[str, Any], names: list[str]) -> dict[str, Any]:
    section = config
    for name in names:
        section = section.setdefault(name, {})
    return section
