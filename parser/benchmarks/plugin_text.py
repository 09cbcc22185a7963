"""A plugin in text: its methods, and its settings with their defaults and documentation."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from parser.benchmarks.discovery import find
from parser.config.description import Setting, SettingsSection, sections

WIDTH = 100


def plugin_text(name: str) -> list[str]:
    """Its lines. Raises ValueError as `find`."""
    plugin = find(name)
    lines = [f"{name}: {plugin.paper}"]
    for mode, methods in plugin.methods.items():
        lines += _wrapped(f"methods of {mode}: {', '.join(methods)}", "")
    lines += ["", "settings, in a config below experiments.NAME.settings:"]
    for section in sections(plugin.Settings):
        lines += _section(section)
    return lines


def _section(section: SettingsSection) -> Iterator[str]:
    if section.key:
        yield ""
        yield from _wrapped(f"{section.key}: {section.text}" if section.text else f"{section.key}:", "")
    for setting in section.settings:
        yield from _setting(setting)


def _setting(setting: Setting) -> Iterator[str]:
    default = f"; default {setting.default}" if setting.default else ""
    yield f"  {setting.key}: {setting.type.replace('`', '')}{default}"
    yield from _wrapped(setting.text, "      ")


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent or "  ")
