"""Measure cells in turns, A B A B, so that a machine that slows down slows them all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from datetime import datetime, timezone
from functools import partial

from parser.plugins import NO_BATCHING
from parser.speed.ceiling import Ceiling
from parser.speed.cells import Cell
from parser.speed.measured import Finished, MeasuredCell, Started, Turn
from parser.speed.remote import Remote, RemoteError
from parser.speed.rows import SKIPPED, WRONG, Row, measured_row
from parser.speed.settings import SpeedConfig
from parser.speed.statistics import median_of

TURNS_AT_LEAST = 3
TURNS_TO_BE_SURE = 5
"""Fewer measurements have no interval to speak of."""
ROUNDING = 2e-4
"""Results may differ by this share of themselves."""

Progress = Callable[[str, float], None]
"""Told what is being done, and how many cells' worth of measuring has passed."""


class References:
    """What `none` gives, which all methods must equal; each experiment's is computed once."""

    def __init__(self, timeout: float):
        self._timeout = timeout
        self._results: dict[tuple[str, str, str], list[float] | RemoteError] = {}

    def of(self, cell: Cell) -> list[float]:
        """Raises RemoteError if `none` gives no results."""
        key = (cell.experiment, cell.mode, cell.device)
        if key not in self._results:
            self._results[key] = self._compute(cell.without_batching())
        results = self._results[key]
        if isinstance(results, RemoteError):
            raise results
        return results

    def _compute(self, cell: Cell) -> list[float] | RemoteError:
        try:
            with Remote(MeasuredCell, cell, timeout=self._timeout) as remote:
                results = remote.call("results")
        except RemoteError as error:
            return RemoteError(f"error: {NO_BATCHING}, which it must equal: {error.status}", error.where)
        return results or RemoteError(f"error: {NO_BATCHING}, which it must equal, is skipped")


class _Runner:
    """A cell that takes turns."""

    def __init__(self, cell: Cell, config: SpeedConfig):
        self.cell, self._config = cell, config
        self.remote = Remote(MeasuredCell, cell, timeout=config.timeout)
        self.turns: list[Turn] = []
        self.started = Started()

    def start(self, references: References) -> Row | None:
        """A row if the cell can not be measured."""
        self.started = self.remote.call("start", self._config.warmup, self._config.turn)
        if self.started.skipped:
            return {"status": f"{SKIPPED}: {self.started.skipped}"}
        difference = disagreement(self.started.check, references.of(self.cell))
        return {"status": f"{WRONG}: {difference}"} if difference else None

    @property
    def progress(self) -> float:
        """From 0 to 1, which is the latest end."""
        return min(1.0, sum(turn.total_seconds for turn in self.turns) / self._config.seconds)

    @property
    def done(self) -> bool:
        if len(self.turns) < TURNS_AT_LEAST:
            return False
        if self.progress >= 1:
            return True
        return len(self.turns) >= TURNS_TO_BE_SURE and self._interval() <= self._config.precision

    def _interval(self) -> float:
        """Half its width, as a share of the median."""
        speed = median_of([turn.sentences_per_second for turn in self.turns])
        return (speed.high - speed.low) / 2 / speed.value

    def finish(self, ceiling: float, sitting: str) -> Row:
        finished: Finished = self.remote.call("finish", len(self.turns))
        return measured_row(self.turns, self.started, finished, ceiling, sitting)


def disagreement(results: Sequence[float] | None, expected: Sequence[float] | None) -> str | None:
    """Where a method's results differ from those without batching beyond rounding, or None."""
    if results is None or expected is None or len(results) != len(expected):
        return f"{len(results or ())} results, but {len(expected or ())} without batching"
    smallest = ROUNDING**2 * max(map(abs, expected), default=0.0)  # what is less is nothing but rounding
    for number, (one, other) in enumerate(zip(results, expected, strict=True)):
        if not abs(one - other) <= ROUNDING * abs(other) + smallest:  # so that nan differs, too
            return f"result {number} is {one:.9g}, but {other:.9g} without batching"
    return None


def measure_in_turns(
    cells: Sequence[Cell], config: SpeedConfig, references: References, progress: Progress
) -> Iterator[tuple[Cell, Row]]:
    """The row of each cell, as soon as it is known. The cells share the device and the number of threads."""
    with ExitStack() as stack:
        runners = []
        for cell in cells:
            progress(f"starting {cell.name}", 0.0)
            runner = _Runner(cell, config)
            stack.enter_context(runner.remote)
            row = _or_failure(partial(runner.start, references))
            if row:
                runner.remote.close()
                progress(cell.name, 1.0)
                yield cell, row
            else:
                runners.append(runner)
        ceiling = stack.enter_context(
            Remote(Ceiling, cells[0].device, cells[0].threads, timeout=config.timeout)
        )
        yield from _take_turns(runners, ceiling, progress)


def _take_turns(
    runners: Sequence[_Runner], ceiling: Remote, progress: Progress
) -> Iterator[tuple[Cell, Row]]:
    sitting = datetime.now(timezone.utc).isoformat(timespec="microseconds")
    products: list[list[float]] = []
    waiting = list(runners)
    while waiting:
        products.append(_ceiling_now(ceiling))
        for runner in list(waiting):
            before = runner.progress
            row = _or_failure(partial(_one_turn, runner, products, sitting))
            if row:
                waiting.remove(runner)
                runner.remote.close()
                yield runner.cell, row
            progress(runner.cell.name, (1.0 if row else runner.progress) - before)


def _ceiling_now(ceiling: Remote) -> list[float]:
    try:
        return ceiling.call("turn")
    except RemoteError as error:
        raise ValueError(f"the machine's matrix products can not be measured: {error.status}") from error


def _one_turn(runner: _Runner, products: Sequence[Sequence[float]], sitting: str) -> Row | None:
    """The cell's row, if this was its last turn."""
    runner.turns.append(runner.remote.call("turn", len(runner.turns)))
    if not runner.done:
        return None
    best = max(median_of(speeds).value for speeds in zip(*products, strict=True))
    return runner.finish(best, sitting)


def _or_failure(action: Callable[[], Row | None]) -> Row | None:
    try:
        return action()
    except RemoteError as error:
        return {"status": error.status, "where": error.where}
