"""Every figure by the name that its mark has on a page."""

from __future__ import annotations

from collections.abc import Callable

from figures import (
    changes,
    gpu,
    headline,
    levels,
    messages,
    on_the_fly,
    outputs,
    parsers,
    recurrence,
    replay,
    sizes,
)

MODULES = changes, gpu, headline, levels, messages, on_the_fly, outputs, parsers, recurrence, replay, sizes


def figures_by_name() -> dict[str, Callable[[], str]]:
    """How each is written. Raises ValueError if two have one name."""
    found: dict[str, Callable[[], str]] = {}
    for module in MODULES:
        if twice := found.keys() & module.FIGURES.keys():
            raise ValueError(f"there are two figures {', '.join(sorted(twice))}")
        found.update(module.FIGURES)
    return found
