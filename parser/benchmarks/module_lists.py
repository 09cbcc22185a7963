"""Module lists whose elements have a known type."""

from __future__ import annotations

from typing import TypeVar

from torch import nn

Kind = TypeVar("Kind", bound=nn.Module)


def typed(modules: nn.ModuleList, kind: type[Kind]) -> list[Kind]:
    """The modules of a list. Raises TypeError for a module of another type."""
    found = [module for module in modules if isinstance(module, kind)]
    if len(found) < len(modules):
        raise TypeError(f"a list of {kind.__name__} holds modules of another type: {modules}")
    return found
