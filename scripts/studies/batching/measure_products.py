"""Measure which kernels are fast on this CPU, and which ones the parser uses.

Prints GFLOP/s of float32 products by torch and by oneDNN, and values per second of torch's tanh and sigmoid.

python scripts/studies/batching/measure_products.py
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parents[2]))  # modules shared by scripts

from measuring import in_turns, processor_seconds

from parser.batching.functional import by_onednn, mkl_leaves_units_idle
from parser.batching.lstm import tanh_is_slow
from parser.system.machine import processor

SHAPES = ((8, 200, 800), (64, 200, 800), (256, 200, 800), (2000, 200, 800), (2000, 60, 200))
TURNS, REPETITIONS = 7, 20


def main() -> None:
    torch.set_num_threads(1)
    print(f"{'rows x inner x columns':<24}{'torch':>8}{'oneDNN':>8}   GFLOP/s on one thread")
    for rows, inner, columns in SHAPES:
        left, right = torch.randn(rows, inner), torch.randn(columns, inner)
        operations = 2 * rows * inner * columns
        seconds = fastest(partial(F.linear, left, right), partial(by_onednn, left, right))
        speeds = "".join(f"{operations / value / 1e9:8.0f}" for value in seconds)
        print(f"{rows:>6} x {inner:>4} x {columns:>5}   {speeds}")
    print(f"for products the parser uses {'oneDNN' if mkl_leaves_units_idle(processor()) else 'torch'}")
    values = torch.randn(64, 256)
    tanh, sigmoid = (values.numel() / seconds for seconds in fastest(values.tanh, values.sigmoid))
    print(f"tanh {tanh / 1e9:.2f}, sigmoid {sigmoid / 1e9:.2f} billion values/s on one thread")
    print(f"for tanh the parser uses {'the sigmoid' if tanh_is_slow(values) else 'torch'}")


def fastest(*calls: Callable[[], Tensor]) -> list[float]:
    """The least time of each call over the turns, in seconds."""
    work = {str(number): partial(processor_seconds, call, REPETITIONS) for number, call in enumerate(calls)}
    turns = [list(found.values()) for found in in_turns(work, TURNS)]
    return [min(own) for own in zip(*turns, strict=True)]


if __name__ == "__main__":
    main()
