"""Where tests run: on PARSER_TEST_DEVICE, or else on the CPU and, in part, also on a simulated GPU."""

import os

import pytest
import torch

SIMULATED = "simulated CUDA"
CHOSEN = os.environ.get("PARSER_TEST_DEVICE")
ALL_SIMULATED = CHOSEN == SIMULATED
DEVICES = [CHOSEN] if CHOSEN else ["cpu", pytest.param(SIMULATED, marks=pytest.mark.extended)]
"""Devices of tests that use the fixture `device`."""
DEVICE = torch.device("cuda" if ALL_SIMULATED else CHOSEN or "cpu")
"""The device of other tests."""
