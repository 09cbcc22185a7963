"""Find the plugins: the modules of `parser.plugins`, but its packages, and what other packages announce."""

from __future__ import annotations

import pkgutil
from importlib.metadata import EntryPoint, entry_points

import parser.plugins
from parser.plugins import Plugin
from parser.quoting import shortened

GROUP = "stack_parser.plugins"


def installed() -> dict[str, EntryPoint]:
    """Where each plugin is, by name; nothing is imported. Raises ValueError if two share a name."""
    plugins: dict[str, EntryPoint] = {}
    own = [
        EntryPoint(module.name, f"parser.plugins.{module.name}:PLUGIN", GROUP)
        for module in pkgutil.iter_modules(parser.plugins.__path__)
        if not module.ispkg
    ]
    for entry in [*own, *entry_points(group=GROUP)]:
        if entry.name in plugins:
            raise ValueError(
                f"two plugins are called {entry.name!r}: {plugins[entry.name].value} and {entry.value}; "
                "uninstall one of their packages"
            )
        plugins[entry.name] = entry
    return dict(sorted(plugins.items()))


def find(name: str) -> type[Plugin]:
    """Raises ValueError if no plugin has that name, if it has another itself, or can not be imported."""
    plugins = installed()
    if name not in plugins:
        raise ValueError(f"no plugin is called {name!r}; installed are {', '.join(plugins)}")
    try:
        plugin = plugins[name].load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever a stranger's module does at import
        why = f"{type(error).__name__}: {shortened(str(error))}"
        raise ValueError(f"plugin {name!r} ({plugins[name].value}) can not be imported: {why}") from None
    if getattr(plugin, "name", name) != name:
        raise ValueError(f"{plugins[name].value} calls itself {plugin.name!r}, but is announced as {name!r}")
    return plugin
