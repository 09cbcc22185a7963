"""Where tests run: on PARSER_TEST_DEVICE; without it on the CPU and, some, on a simulated GPU, too."""

import os

import pytest
import torch

SIMULATED = "simulated CUDA"
CHOSEN = os.environ.get("PARSER_TEST_DEVICE")
ALL_SIMULATED = CHOSEN == SIMULATED
DEVICES = [CHOSEN] if CHOSEN else ["cpu", SIMULATED]
"""Of tests that take the fixture `device`."""
DEVICE = torch.device("cuda" if ALL_SIMULATED else CHOSEN or "cpu")
"""Of other tests."""
SLOW_IF_SIMULATED = [
    pytest.param(name, marks=[pytest.mark.slow] if name == SIMULATED else []) for name in DEVICES
]
"""`DEVICES`, of tests that take long on the simulated one."""
