"""Where tests run: on PARSER_TEST_DEVICE; without it on the CPU and, some, on a simulated GPU, too."""

import os

import pytest
import torch

SIMULATED = "simulated CUDA"
CHOSEN = os.environ.get("PARSER_TEST_DEVICE")
ALL_SIMULATED = CHOSEN == SIMULATED
DEVICES = [CHOSEN] if CHOSEN else ["cpu", pytest.param(SIMULATED, marks=pytest.mark.extended)]
"""Of tests that take the fixture `device`."""
DEVICE = torch.device("cuda" if ALL_SIMULATED else CHOSEN or "cpu")
"""Of other tests."""
