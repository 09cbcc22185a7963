"""Progress bars in a terminal."""

from __future__ import annotations

import sys
from collections.abc import MutableMapping
from typing import Any

from tqdm import tqdm

from parser.system.console import printable

PROGRESS_BAR: dict[str, Any] = {"delay": 2, "leave": False, "disable": None}
"""Options of a bar that is shown only in a terminal, and only after two seconds."""


class ProgressBar(tqdm):
    """A progress bar with a printable description. Nothing is shown if standard error is closed."""

    def __init__(self, *arguments: Any, **options: Any):
        if sys.stderr is None:
            options["disable"] = True
        super().__init__(*arguments, **options)

    @property
    def format_dict(self) -> MutableMapping[str, Any]:
        """The values that the library draws."""
        drawn = super().format_dict
        return {**drawn, "prefix": printable(drawn["prefix"])}
