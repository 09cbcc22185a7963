"""Access to values in nested mappings by keys such as `training.epochs`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def set_in(content: dict[str, Any], key: str, value: Any) -> None:
    """Set the value of a dotted key; does nothing if its section is null."""
    *sections, name = key.split(".")
    for section in sections:
        if content.get(section, {}) is None:
            return
        content = content.setdefault(section, {})
    content[name] = value


def flat(content: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """The values of nested mappings by dotted keys, such as "training.seed"."""
    found: dict[str, Any] = {}
    for key, value in content.items():
        name = f"{above}{key}"
        found |= flat(value, f"{name}.") if isinstance(value, Mapping) else {name: value}
    return found
