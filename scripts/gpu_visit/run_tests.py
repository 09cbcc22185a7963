"""A stage: tests with their tensors on the GPU. Each failure is printed and reported when it happens.

python -m gpu_visit.run_tests once-failed   # those that failed on a GPU, or would by rounding alone
python -m gpu_visit.run_tests quick         # all that `make test` runs
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from importlib.util import find_spec

import pytest

from gpu_visit.reporting import report

ONCE_FAILED = (
    "tests/optimization/test_graphed_gradients.py",
    "tests/networks/test_token_encoder.py",
    "tests/benchmarks/test_operation_training.py::test_taggers_are_equal",
    "tests/benchmarks/test_operation_training.py::test_feature_parsers_are_equal",
    "tests/batching/test_functional.py",
    "tests/batching/test_lstm.py",
    "tests/benchmarks/stack_parser/test_stack_parser_plugin.py::test_every_method_gives_the_cpus_results_on_the_device",
    "tests/parsing/test_parse.py",
)
ALL = "tests"
REHEARSED = "tests/batching/test_ragged.py"
NEEDED = "hypothesis", "psutil"
"""Packages that tests/conftest.py, or what it imports, needs."""
MOST_LINES = 12
"""Lines of a failure that are reported: the last ones. The log has all."""


class Reporter:
    """A plugin of pytest that tells of failures at once: a run that is killed does not print them."""

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


def main(which: str, rehearse: bool) -> int:
    for name in NEEDED:
        if find_spec(name) is None:
            raise ModuleNotFoundError(f"No module named {name!r}")
    os.environ["PARSER_TEST_DEVICE"] = "simulated CUDA" if rehearse else "cuda"
    options = ["--tb=short", "--continue-on-collection-errors", "--hypothesis-profile", "few examples"]
    options += ["-p", "no:cacheprovider", "-p", "no:benchmark"]  # the latter warns about several processes
    if which == "once-failed":
        options += ["-m", "not real_data and not soak", *ONCE_FAILED]
    else:
        options += ["-m", "not extended and not real_data and not soak", REHEARSED if rehearse else ALL]
    if rehearse and which == "once-failed":
        options += ["-q", "--collect-only"]  # whether they are still there
    elif find_spec("xdist") and not rehearse:
        options += ["-v", "-n", str(min(12, os.cpu_count() or 1)), "--dist", "worksteal"]
    else:
        options.append("-v")
    reporter = Reporter()
    status = pytest.main(options, plugins=[reporter])
    report(tests=dict(reporter.outcomes))
    return int(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], rehearse="--rehearse" in sys.argv))
