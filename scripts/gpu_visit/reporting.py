"""How a stage tells its results: as lines of its output, so that they stay if it is killed."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

RESULT = "RESULT "
"""What the line of a result starts with."""
MOST_LINES = 12
"""Lines of a failed test that are reported: the last ones. The log has all."""


def report(**result: Any) -> None:
    """Print a result, in JSON types."""
    print(f"\n{RESULT}{json.dumps(result, ensure_ascii=False)}", flush=True)


class TestReporter:
    """A plugin of pytest that reports failures at once: a run that is killed does not print them."""

    __test__ = False

    def __init__(self) -> None:
        self.outcomes = Counter[str]()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome != "passed":
            self._note(report.outcome, report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._note("not collected", report)

    def _note(self, outcome: str, found: pytest.TestReport | pytest.CollectReport) -> None:
        self.outcomes[outcome] += 1
        if outcome not in ("passed", "skipped"):
            print(f"\n{outcome}: {found.nodeid}\n{found.longreprtext}", flush=True)
            report(test=found.nodeid, outcome=outcome, lines=found.longreprtext.splitlines()[-MOST_LINES:])
