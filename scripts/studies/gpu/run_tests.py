"""A stage: tests with their tensors on the GPU. Each failure is printed and reported when it happens.

python scripts/studies/gpu/run_tests.py once-failed   # those that failed on a GPU, or would by rounding alone
python scripts/studies/gpu/run_tests.py quick         # all that `make test` runs
"""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))  # modules shared by scripts

from gpu_visit.runner import TestReporter, report

ONCE_FAILED = (
    "tests/training/test_graphs.py::test_graphs_train_as_plain_steps_do",
    "tests/networks/test_token_encoder.py",
    "tests/speed/tasks/test_operation_training.py::test_taggers_are_equal",
    "tests/speed/tasks/test_operation_training.py::test_feature_parsers_are_equal",
    "tests/batching/test_functional.py",
    "tests/batching/test_lstm.py",
    "tests/speed/tasks/stack_parser/test_stack_parser_plugin.py::test_every_method_gives_the_cpus_results_on_the_device",
    "tests/parsing/test_parse.py",
)
ALL = "tests"
REHEARSED = "tests/batching/test_ragged.py"
NEEDED = "hypothesis", "psutil"
"""Packages that tests/conftest.py, or what it imports, needs."""


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
    reporter = TestReporter()
    status = pytest.main(options, plugins=[reporter])
    report(tests=dict(reporter.outcomes))
    return int(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], rehearse="--rehearse" in sys.argv))
