"""Measure when padding is faster for training a bidirectional LSTM on this CPU: its time over that by levels.

A forward and a backward pass are timed on one thread, for sequences of similar and of mixed lengths.

python scripts/studies/batching/measure_bilstm.py
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[2]))  # modules shared by scripts

from measuring import in_turns, processor_seconds

from parser.batching.device import fix_workspaces
from parser.networks.bilstm import bilstm, bilstm_by_levels, bilstm_padded
from parser.speed.tasks.bilstms import BiLSTM
from parser.system.provenance import machine

SIZES = (64, 100, 200)
WORDS = 500
"""The approximate number of words in a batch."""
LENGTHS = {
    "4 words": [4] * (WORDS // 4),
    "8 words": [8] * (WORDS // 8),
    "20 to 24": [20 + number % 5 for number in range(WORDS // 22)],
    "50 to 58": [50 + number for number in range(9)],
    "10 to 34": [10 + number for number in range(25)],
    "2 to 40": [2 + 2 * number for number in range(20)],
}
TURNS, REPETITIONS = 7, 2


def main() -> None:
    fix_workspaces(False, torch.device("cpu"))
    torch.set_num_threads(1)
    print(machine()["cpu"])
    print(f"{'':<12}" + "".join(f"{f'{size} units':>12}" for size in SIZES))
    for name, lengths in LENGTHS.items():
        ratios = [ratio(size, lengths) for size in SIZES]
        print(f"{name:<12}" + "".join(f"{each:12.2f}" for each in ratios))


def ratio(size: int, lengths: list[int]) -> float:
    """The least seconds with padding over the least seconds by levels, of several turns."""
    torch.manual_seed(1)
    lstm = bilstm(2 * size, size, layers=1)
    inputs = torch.randn(sum(lengths), 2 * size, requires_grad=True)

    def train(run: BiLSTM) -> None:
        run(lstm, inputs, lengths).sum().backward()

    runs: dict[str, BiLSTM] = {"padded": bilstm_padded, "levels": bilstm_by_levels}
    work = {name: partial(processor_seconds, partial(train, run), REPETITIONS) for name, run in runs.items()}
    turns = list(in_turns(work, TURNS))
    padded, levels = (min(turn[name] for turn in turns) for name in runs)
    return padded / levels


if __name__ == "__main__":
    main()
