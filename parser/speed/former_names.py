"""Rows and configs of older versions: their names of fields, methods and settings become those of today."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from parser.former_names import with_new_names
from parser.plugins import Plugin, former_defaults, former_methods
from parser.speed.cells import validated
from parser.speed.discovery import find_or_none
from parser.speed.settings import FORMER_KEYS

FIELDS = {"sitting": "interleaved_group", "split": "phase_seconds", "where": "traceback"}
"""New names of a row's fields by their old ones."""
CONDITION, BETWEEN, EITHER = "method=", ",", "|"
"""Of a filter of cells, as "method=none|replay,batch_size=64"."""


def row_with_new_names(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row as this version writes it. Settings that did not exist yet have their defaults.

    Raises KeyError or TypeError for what is not a row.
    """
    renamed = {"precision": "float32"} | {FIELDS.get(name, name): value for name, value in row.items()}
    plugin = find_or_none(row["plugin"])
    if plugin is not None:
        methods = former_methods(plugin)
        renamed["method"] = methods.get(row["method"], row["method"])
        former = {**former_defaults(plugin), **with_new_names(row["settings"])}
        renamed["settings"] = _completed(plugin, former)
        if "only" in row:
            renamed["only"] = _filter_with_new_names(row["only"], methods)
    return renamed


def config_with_new_names(config: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a run's config.yaml, as this version writes it."""
    sections = ("experiments", "learning")
    return {
        FORMER_KEYS.get(key, key): (
            {name: _section_with_new_names(own) for name, own in value.items()} if key in sections else value
        )
        for key, value in config.items()
    }


def _section_with_new_names(section: Mapping[str, Any]) -> dict[str, Any]:
    plugin = find_or_none(section["plugin"])
    methods = former_methods(plugin) if plugin else {}
    former = former_defaults(plugin) if plugin else {}
    renamed = {**section, "settings": {**former, **with_new_names(section.get("settings", {}))}}
    if section.get("methods"):
        renamed["methods"] = [methods.get(method, method) for method in section["methods"]]
    if isinstance(sizes := section.get("batch_sizes"), Mapping):
        renamed["batch_sizes"] = {methods.get(method, method): own for method, own in sizes.items()}
    return renamed


def _completed(plugin: type[Plugin], settings: dict[str, Any]) -> dict[str, Any]:
    try:
        return validated(plugin, settings).model_dump(mode="json")
    except ValueError:  # settings that this version does not have: the row is of no cell of today
        return settings


def _filter_with_new_names(text: str, methods: Mapping[str, str]) -> str:
    conditions = []
    for condition in text.split(BETWEEN):
        if condition.startswith(CONDITION):
            names = condition.removeprefix(CONDITION).split(EITHER)
            condition = CONDITION + EITHER.join(methods.get(name, name) for name in names)
        conditions.append(condition)
    return BETWEEN.join(conditions)
