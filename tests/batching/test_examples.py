"""The examples in the docstrings of the names that the batching library exports."""

from doctest import NORMALIZE_WHITESPACE, DocTestFinder, DocTestRunner
from importlib import import_module

import numpy as np
import pytest
import torch
from torch import nn

from parser.batching.recurrence.examples import elman

PACKAGES = [
    import_module(f"parser.batching{name}") for name in ("", ".operations", ".recurrence", ".messages")
]
OTHERS = {"np": np, "nn": nn, "torch": torch, "elman": elman}
"""What examples use beside the exported names."""
CONSTANTS = {"CONTROLLER", "HOLD", "POP", "PRECISIONS", "PUSH", "Precision", "REDUCE_AND_REPLACE", "REPLACE"}


@pytest.mark.parametrize(
    ("package", "name"),
    [(package, name) for package in PACKAGES for name in package.__all__ if name not in CONSTANTS],
)
def test_each_exported_name_has_an_example_that_runs(package, name):
    exported = {name: getattr(package, name) for package in PACKAGES for name in package.__all__}
    tests = DocTestFinder(recurse=False).find(getattr(package, name), name, globs={**exported, **OTHERS})
    [test] = [test for test in tests if test.examples]
    assert DocTestRunner(optionflags=NORMALIZE_WHITESPACE).run(test).failed == 0
