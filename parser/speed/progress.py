"""The progress of a speed run: a bar on a terminal; elsewhere a line for each cell."""

from __future__ import annotations

from types import TracebackType

from tqdm import tqdm

from parser.console import warn

BAR = "{desc} {percentage:3.0f}%|{bar}| {n:.1f}/{total} cells, {elapsed} elapsed, {remaining} remaining"


class CellProgress:
    def __init__(self, cells: int):
        """cells: the number of cells to measure."""
        self._bar = tqdm(total=cells, unit="cell", disable=None, bar_format=BAR)
        self._started = 0

    def start(self, name: str) -> None:
        """A cell is being prepared."""
        self._started += 1
        if self._bar.disable:
            warn(f"cell {self._started} of {self._bar.total}: {name}")
        else:
            self._bar.set_description_str(f"starting {name}")

    def advance(self, name: str, share: float) -> None:
        """A share of a cell's measuring is done."""
        if not self._bar.disable:
            self._bar.set_description_str(name, refresh=False)
            self._bar.update(share)

    def __enter__(self) -> CellProgress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.close()
