"""Measures cells interleaved, A B A B: if the machine slows down, all of them slow down."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from statistics import median

from parser.batching.precision import Precision
from parser.plugins import NO_BATCHING
from parser.remote import Remote, RemoteError
from parser.speed.ceiling import Ceiling
from parser.speed.cells import Cell
from parser.speed.machine_load import MachineLoad
from parser.speed.measured import Finished, MeasuredCell, Started, Turn
from parser.speed.progress import CellProgress
from parser.speed.rows import SKIPPED, WRONG, Row, measured_row
from parser.speed.settings import SpeedConfig
from parser.speed.statistics import median_of

IF_KILLED = "lower `together` in the config"
MIN_TURNS = 3
MIN_TURNS_FOR_INTERVAL = 5
"""An interval of fewer turns is not used to end a cell early."""
ROUNDING: dict[Precision, float] = {"float32": 2e-4, "tf32": 1e-2, "bfloat16": 5e-2}
"""Relative difference of results that is taken for rounding."""


class References:
    """The results of `none`, which all methods must reproduce. Those of each experiment are computed once."""

    def __init__(self, timeout: float):
        """timeout: seconds to wait for them."""
        self._timeout = timeout
        self._results: dict[tuple[str, ...], list[float] | RemoteError] = {}

    def of(self, cell: Cell) -> list[float]:
        """Raises RemoteError if `none` has no results."""
        key = (cell.experiment, cell.mode, cell.device, cell.precision)
        if key not in self._results:
            self._results[key] = self._compute(cell.without_batching())
        results = self._results[key]
        if isinstance(results, RemoteError):
            raise results
        return results

    def _compute(self, cell: Cell) -> list[float] | RemoteError:
        try:
            with Remote(MeasuredCell, cell, timeout=self._timeout, advice=IF_KILLED) as remote:
                results = remote.call("results")
        except RemoteError as error:
            status = f"error: {NO_BATCHING}, whose results it must have: {error.status}"
            return RemoteError(status, error.traceback)
        return results or RemoteError(f"error: {NO_BATCHING}, whose results it must have, is skipped")


class _Runner:
    """A cell that takes turns with others."""

    def __init__(self, cell: Cell, config: SpeedConfig):
        self.cell, self._config = cell, config
        self.remote = Remote(MeasuredCell, cell, timeout=config.timeout, advice=IF_KILLED)
        self.turns: list[Turn] = []
        self.started = Started()

    def start(self, references: References) -> Row | None:
        """Returns a row if the cell cannot be measured."""
        self.started = self.remote.call("start", self._config.warmup, self._config.turn)
        if self.started.skipped:
            return {"status": f"{SKIPPED}: {self.started.skipped}"}
        expected = references.of(self.cell)
        difference = disagreement(self.started.check, expected, ROUNDING[self.cell.precision])
        return {"status": f"{WRONG}: {difference}"} if difference else None

    @property
    def progress(self) -> float:
        """From 0 to 1. At 1 the cell ends."""
        return min(1.0, sum(turn.total_seconds for turn in self.turns) / self._config.seconds)

    @property
    def done(self) -> bool:
        if len(self.turns) < MIN_TURNS:
            return False
        if self.progress >= 1:
            return True
        has_interval = len(self.turns) >= MIN_TURNS_FOR_INTERVAL
        return has_interval and self._relative_error() <= self._config.relative_error

    def _relative_error(self) -> float:
        """Half the width of the interval over the median."""
        speed = median_of([turn.sentences_per_second for turn in self.turns])
        return (speed.high - speed.low) / 2 / speed.value

    def finish(self, ceiling: float, interleaved_group: str) -> Row:
        finished: Finished = self.remote.call("finish", len(self.turns))
        return measured_row(self.turns, self.started, finished, ceiling, interleaved_group)


def disagreement(
    results: Sequence[float] | None, expected: Sequence[float] | None, rounding: float = ROUNDING["float32"]
) -> str | None:
    """Where a method's results differ by more than rounding from those without batching, or None."""
    if results is None or expected is None or len(results) != len(expected):
        return f"{len(results or ())} results, but {len(expected or ())} without batching"
    smallest = rounding**2 * max(map(abs, expected), default=0.0)  # differences below are rounding, too
    for number, (one, other) in enumerate(zip(results, expected, strict=True)):
        if not abs(one - other) <= rounding * abs(other) + smallest:  # written so that NaN differs
            return f"result {number} is {one:.9g}, but {other:.9g} without batching"
    return None


def measure_interleaved(
    cells: Sequence[Cell],
    config: SpeedConfig,
    references: References,
    progress: CellProgress,
    load: MachineLoad,
) -> Iterator[tuple[Cell, Row]]:
    """Yields the row of each cell when it ends. The cells share the device and the number of threads."""
    with ExitStack() as stack:
        runners = []
        for cell in cells:
            progress.start(cell.name)
            runner = _Runner(cell, config)
            stack.enter_context(runner.remote)
            row = _or_failure(partial(runner.start, references))
            if row:
                runner.remote.close()
                progress.advance(cell.name, 1.0)
                yield cell, row
            else:
                runners.append(runner)
        device, threads = cells[0].device, cells[0].threads
        ceilings = {
            precision: stack.enter_context(
                Remote(Ceiling, device, threads, precision, timeout=config.timeout)
            )
            for precision in dict.fromkeys(runner.cell.precision for runner in runners)
        }
        yield from _take_turns(runners, ceilings, progress, load)


def _take_turns(
    runners: Sequence[_Runner],
    ceilings: Mapping[Precision, Remote],
    progress: CellProgress,
    load: MachineLoad,
) -> Iterator[tuple[Cell, Row]]:
    interleaved_group = datetime.now(UTC).isoformat(timespec="microseconds")
    products: dict[Precision, list[list[float]]] = {precision: [] for precision in ceilings}
    unfinished = list(runners)
    while unfinished:
        load.check()
        for precision, ceiling in ceilings.items():
            products[precision].append(_ceiling_now(ceiling))
        for runner in list(unfinished):
            before = runner.progress
            own_products = products[runner.cell.precision]
            row = _or_failure(partial(_one_turn, runner, own_products, interleaved_group))
            if row:
                unfinished.remove(runner)
                runner.remote.close()
                yield runner.cell, row
            progress.advance(runner.cell.name, (1.0 if row else runner.progress) - before)


def _ceiling_now(ceiling: Remote) -> list[float]:
    try:
        return ceiling.call("turn")
    except RemoteError as error:
        raise ValueError(f"the machine's matrix products cannot be measured: {error.status}") from error


def _one_turn(runner: _Runner, products: Sequence[Sequence[float]], interleaved_group: str) -> Row | None:
    """Returns the cell's row if this was its last turn."""
    runner.turns.append(runner.remote.call("turn", len(runner.turns)))
    if not runner.done:
        return None
    best = max(map(median, zip(*products, strict=True)))
    return runner.finish(best, interleaved_group)


def _or_failure(action: Callable[[], Row | None]) -> Row | None:
    try:
        return action()
    except RemoteError as error:
        return {"status": error.status, "traceback": error.traceback}
