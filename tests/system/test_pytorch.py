"""How PyTorch is tuned."""

import os
import subprocess
import sys

import pytest

SHAPES = 300
PROGRAM = f"""
import sys
import torch
from parser.system.pytorch import tune_process

tune_process(int(sys.argv[1]))
torch.set_num_threads(1)
lstm = torch.nn.LSTM(8, 8)
with torch.no_grad():
    for steps in [*range(1, {SHAPES + 1}), 1]:
        lstm(torch.ones(steps, 1, 8))
"""


@pytest.mark.parametrize(("kernels", "again"), [(64, 1), (4096, 0)])
def test_so_many_kernels_are_kept(kernels, again):
    """If few are, that of the first shape is compiled again."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("ONEDNN")}
    command = [sys.executable, "-c", PROGRAM, str(kernels)]
    done = subprocess.run(
        command, env={**variables, "ONEDNN_VERBOSE": "profile_create"}, stdout=subprocess.PIPE, check=True
    )
    lines = [line.split(",") for line in done.stdout.decode().splitlines()]
    compiled = [line for line in lines if "create:cache_miss" in line and "rnn" in line]
    if not compiled:
        pytest.skip("oneDNN does not compute LSTMs here")
    assert len(compiled) == SHAPES + again
