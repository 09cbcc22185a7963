"""Finds plugins, and describes their methods and settings to users."""

from __future__ import annotations

import pkgutil
import sys
import textwrap
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points

import parser.speed.tasks
from parser.config.description import sections
from parser.speed.tasks.plugin import AnyPlugin
from parser.system.console import shortened

PARTS = "methods", "paper", "Settings"
"""The attributes without which a plugin cannot be described. `conformance.faults_of` finds other faults."""
ENTRY_POINT_GROUP, PLUGIN_SUFFIX = "stack_parser.plugins", "_plugin"
METHOD_GROUP = "stack_parser.methods"
"""The group of entry points that name a task, and a module that registers methods for it."""


def installed() -> Mapping[str, EntryPoint]:
    """The entry points of plugins by name. Imports no plugin. Raises ValueError if two share a name."""
    return _installed(tuple(sys.path))


@cache
def _installed(path: tuple[str, ...]) -> dict[str, EntryPoint]:
    """See `installed`. path: `sys.path`, which `entry_points` reads itself."""
    plugins: dict[str, EntryPoint] = {}
    of_this_package = []
    for parent in parser.speed.tasks.__path__:
        for folder in (each.name for each in pkgutil.iter_modules([parent]) if each.ispkg):
            for module in (each.name for each in pkgutil.iter_modules([f"{parent}/{folder}"])):
                if module.endswith(PLUGIN_SUFFIX):
                    place = f"{parser.speed.tasks.__name__}.{folder}.{module}:PLUGIN"
                    name = module.removesuffix(PLUGIN_SUFFIX)
                    of_this_package.append(EntryPoint(name, place, ENTRY_POINT_GROUP))
    for entry in [*of_this_package, *entry_points(group=ENTRY_POINT_GROUP)]:
        if entry.name in plugins:
            raise ValueError(
                f"two plugins are called {entry.name!r}: {plugins[entry.name].value} and {entry.value}; "
                "uninstall one of their packages"
            )
        plugins[entry.name] = entry
    return dict(sorted(plugins.items()))


def entry_of(name: str) -> EntryPoint | None:
    """The entry point of a plugin by its name or by MODULE:CLASS, which need not be installed; or None."""
    return EntryPoint(name, name, ENTRY_POINT_GROUP) if ":" in name else installed().get(name)


def unknown(name: str) -> str:
    """The message for a plugin that is not installed."""
    return (
        f"no plugin is called {name!r}; installed are {', '.join(installed())}. One that is not installed is "
        "MODULE:CLASS, with its folder in PYTHONPATH"
    )


def find(name: str) -> type[AnyPlugin]:
    """Import a plugin by its name, or by MODULE:CLASS.

    Raises ValueError if there is none, or if it has a different `name`, cannot be imported or is no plugin.
    """
    entry = entry_of(name)
    if entry is None:
        raise ValueError(unknown(name))
    try:
        plugin = entry.load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever the plugin's module raises
        why = f"{type(error).__name__}: {shortened(str(error))}"
        raise ValueError(f"plugin {name!r} ({entry.value}) cannot be imported: {why}") from None
    for methods in entry_points(group=METHOD_GROUP, name=name):
        try:
            methods.load()
        except Exception as error:  # whatever the module raises
            why = f"{type(error).__name__}: {shortened(str(error))}"
            raise ValueError(f"methods of {name!r} ({methods.value}) cannot be imported: {why}") from None
    if lacking := [part for part in PARTS if not hasattr(plugin, part)]:
        raise ValueError(
            f"{entry.value} is no plugin: it has no `{lacking[0]}`; docs/speed.md says what one has"
        )
    if entry.value != name and getattr(plugin, "name", name) != name:
        raise ValueError(f"{entry.value} calls itself {plugin.name!r}, but its entry point is {name!r}")
    return plugin


def find_or_none(name: str) -> type[AnyPlugin] | None:
    """Like `find`, but returns None for a plugin that is not installed or cannot be imported."""
    try:
        return find(name)
    except ValueError:
        return None


def about_plugins() -> Iterator[str]:
    """Yield a line for each plugin: its name, paper and methods, or why it cannot be imported."""
    for name, entry in installed().items():
        try:
            plugin = find(name)
            methods = "; ".join(f"{mode}: {', '.join(methods)}" for mode, methods in plugin.methods.items())
            about = f"{plugin.paper}. {methods}"
        except ValueError as error:
            about = str(error)
        yield f"{name:<26}{about}  [{entry.value}]"


WIDTH = 100


def plugin_text(name: str) -> list[str]:
    """The lines that describe a plugin. Raises ValueError like `find`."""
    plugin = find(name)
    lines = [f"{name}: {plugin.paper}"]
    for mode, methods in plugin.methods.items():
        lines += _wrapped(f"methods of {mode}: {', '.join(methods)}", "")
    lines += ["", "settings, in a config below experiments.NAME.settings:"]
    for section in sections(plugin.Settings):
        if section.key:
            text = f"{section.key}: {section.text}" if section.text else f"{section.key}:"
            lines += ["", *_wrapped(text, "")]
        for setting in section.settings:
            default = f"; default {setting.default}" if setting.default else ""
            lines.append(f"  {setting.key}: {setting.type.replace('`', '')}{default}")
            lines += _wrapped(setting.text, "      ")
    return lines


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent or "  ")
