"""Descriptions of settings, from the classes that validate them: type, limits, default, documentation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from pydantic import BaseModel

NO_LIMIT = 1_000_000_000
"""Limits of this size or more only prevent overflows, and are not shown."""
Schema = dict[str, Any]


class Setting(NamedTuple):
    key: str
    """The dotted key."""
    type: str
    """The type in words, with its limits. Values are in backticks."""
    default: str
    """The default in YAML; empty for a required setting, and for a group, which is a separate section."""
    text: str
    """The documentation, in one line."""


class SettingsSection(NamedTuple):
    """The settings of one class."""

    key: str
    """The dotted key; empty at the top level."""
    name: str
    """The name of the class."""
    kind: str
    """The `kind` that selects the class, if its key allows several classes; otherwise empty."""
    text: str
    settings: list[Setting]


def sections(settings: type[BaseModel]) -> Iterator[SettingsSection]:
    """The section of a class, then the sections of the classes that its settings consist of."""
    whole = settings.model_json_schema()
    yield from _sections("", whole, whole)


def _sections(key: str, schema: Schema, whole: Schema) -> Iterator[SettingsSection]:
    kind = schema["properties"].get("kind", {}).get("const", "")
    settings = [
        Setting(
            key=_joined(key, name),
            type=in_words(field),
            default="" if name in schema.get("required", []) else _default(field),
            text=_one_line(field.get("description", "")),
        )
        for name, field in schema["properties"].items()
    ]
    yield SettingsSection(key, schema["title"], kind, _one_line(schema.get("description", "")), settings)
    for name, field in schema["properties"].items():
        for inner, reference in _references(_joined(key, name), field):
            yield from _sections(inner, whole["$defs"][reference.rpartition("/")[2]], whole)


def _references(key: str, field: Schema) -> Iterator[tuple[str, str]]:
    """The classes that a setting consists of, each with its dotted key."""
    if "$ref" in field:
        yield key, field["$ref"]
    for choice in field.get("anyOf") or field.get("oneOf", []):
        yield from _references(key, choice)
    if isinstance(value := field.get("additionalProperties"), dict):
        yield from _references(f"{key}.NAME", value)
    if isinstance(items := field.get("items"), dict):
        yield from _references(key, items)


def _joined(key: str, name: str) -> str:
    return f"{key}.{name}" if key else name


def _default(field: Schema) -> str:
    if "$ref" in field or "default" not in field:
        return ""
    value = field["default"]
    return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)


def in_words(field: Schema, end: str = "") -> str:
    """The type of a setting, in words. end: "s" for the plural."""
    if choices := field.get("anyOf") or field.get("oneOf"):
        return ", or ".join(dict.fromkeys(in_words(choice, end) for choice in choices))
    if "$ref" in field:
        return "settings (below)"
    if "const" in field or "enum" in field:
        return _listed(field.get("enum") or [field["const"]])
    match field.get("type"):
        case "boolean":
            return "`true` or `false`"
        case "null":
            return "`null`"
        case "array":
            items = field.get("prefixItems") or [field["items"]]
            count = f"{len(items)} " if "prefixItems" in field else ""
            return f"list{end} of {count}{in_words(items[0], 's')}"
        case "object":
            keys, values = field.get("propertyNames", {}).get("enum"), field.get("additionalProperties")
            target = in_words(values, "s") if isinstance(values, dict) else "any values"
            return f"mapping{end} from {_listed(keys) if keys else 'names'} to {target}"
        case str(kind):
            return kind + end + _limits(field)
        case _:
            return "any value"


def _listed(values: list[Any]) -> str:
    *others, last = (f"`{value}`" for value in values)
    return f"{', '.join(others)} or {last}" if others else last


def _limits(field: Schema) -> str:
    lowest, above = field.get("minimum"), field.get("exclusiveMinimum")
    if field.get("type") == "integer" and above is not None:
        lowest, above = above + 1, None
    greatest, below = field.get("maximum"), field.get("exclusiveMaximum")
    if greatest is not None and greatest >= NO_LIMIT:
        greatest = None
    if lowest is not None and greatest is not None:
        return f", {lowest:,} to {greatest:,}"
    limits = (("at least", lowest), ("above", above), ("at most", greatest), ("below", below))
    shown = [f"{word} {limit:,}" for word, limit in limits if limit is not None and abs(limit) < NO_LIMIT]
    return ", " + " and ".join(shown) if shown else ""


def _one_line(text: str) -> str:
    return " ".join(text.split())
