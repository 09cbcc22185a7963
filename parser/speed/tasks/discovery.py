"""Finds plugins, and describes their methods and settings to users."""

from __future__ import annotations

import pkgutil
import sys
import textwrap
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points

import parser.speed.tasks
from parser.config.description import Setting, SettingsSection, sections
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
    of_this_package = [
        EntryPoint(
            module.name.rpartition(".")[2].removesuffix(PLUGIN_SUFFIX),
            f"{module.name}:PLUGIN",
            ENTRY_POINT_GROUP,
        )
        for module in _modules_in_folders()
        if module.name.endswith(PLUGIN_SUFFIX)
    ]
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
    _load_methods(name)
    if lacking := [part for part in PARTS if not hasattr(plugin, part)]:
        raise ValueError(
            f"{entry.value} is no plugin: it has no `{lacking[0]}`; docs/speed.md says what one has"
        )
    if entry.value != name and getattr(plugin, "name", name) != name:
        raise ValueError(f"{entry.value} calls itself {plugin.name!r}, but its entry point is {name!r}")
    return plugin


def _load_methods(task: str) -> None:
    """Import the modules of other packages that register methods for a task. Raises ValueError."""
    for entry in entry_points(group=METHOD_GROUP, name=task):
        try:
            entry.load()
        except Exception as error:  # whatever the module raises
            why = f"{type(error).__name__}: {shortened(str(error))}"
            raise ValueError(f"methods of {task!r} ({entry.value}) cannot be imported: {why}") from None


def _modules_in_folders() -> Iterator[pkgutil.ModuleInfo]:
    """The modules in the folders of `parser.speed.tasks`, with their full names. Imports none of them."""
    name = parser.speed.tasks.__name__
    for folder in pkgutil.iter_modules(parser.speed.tasks.__path__, f"{name}."):
        if folder.ispkg:
            path = [f"{parent}/{folder.name.rpartition('.')[2]}" for parent in parser.speed.tasks.__path__]
            yield from pkgutil.iter_modules(path, f"{folder.name}.")


def find_or_none(name: str) -> type[AnyPlugin] | None:
    """Like `find`, but returns None for a plugin that is not installed or cannot be imported."""
    try:
        return find(name)
    except ValueError:
        return None


def about_plugins() -> Iterator[str]:
    """Yield a line for each plugin: its name, paper and methods, or why it cannot be imported."""
    for name, entry in installed().items():
        yield f"{name:<26}{_about(name)}  [{entry.value}]"


def _about(name: str) -> str:
    try:
        plugin = find(name)
    except ValueError as error:
        return str(error)
    methods = "; ".join(f"{mode}: {', '.join(methods)}" for mode, methods in plugin.methods.items())
    return f"{plugin.paper}. {methods}"


WIDTH = 100


def plugin_text(name: str) -> list[str]:
    """The lines that describe a plugin. Raises ValueError like `find`."""
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
