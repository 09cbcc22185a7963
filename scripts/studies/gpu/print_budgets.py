"""Print the launches, uploads and waits of training steps and of parsing on a GPU, next to their budgets.

python scripts/studies/gpu/print_budgets.py
python scripts/studies/gpu/print_budgets.py --treebank FILE.conllu

The counts come from a simulated GPU. The exit status is 1 if a budget is exceeded.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from unittest import mock

import torch

sys.path.insert(0, str(Path(__file__).parents[2]))  # modules shared by scripts

from prediction.counting import PAPER_NETWORK, Cell, stack_parser_settings
from simulated_cuda.counts import LAUNCHES, UPLOADS, WAITS_OF_A_TRAINING_STEP
from simulated_cuda.device import SimulatedCuda

from parser.parsing import running_batch
from parser.parsing.running_batch import STEPS_BETWEEN_SYNCHRONISATIONS
from parser.speed.tasks.stack_parser.stack_parser_plugin import StackParserSettings

SIZES = 1, 8, 64, 256
PARSED = 64
"""The number of rows of the batch in parsing."""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--treebank", default="data/quickstart/train.conllu", help="CoNLL-U file")
    settings = stack_parser_settings(options.parse_args().treebank, PAPER_NETWORK)
    torch.set_num_threads(1)
    print("a training step           launches  budget   uploads  budget   waits  budget")
    kept = [_training(method, size, settings) for method in LAUNCHES for size in SIZES]
    kept.append(_parsing(settings))
    sys.exit(0 if all(kept) else 1)


def _training(method: str, size: int, settings: StackParserSettings) -> bool:
    """Print a line for a training step. Returns whether all budgets are kept."""
    with SimulatedCuda() as cuda:
        cell = Cell(method, "train", size, cuda.name, settings)
        rows = cell.chosen()[len(cell.chosen()) // 2]
        cell.plugin.run(rows)
        cuda.counted()
        cell.plugin.run(rows)
        counts = cuda.counted()
    levels, steps = cell.repetitions(rows)
    budget = LAUNCHES[method].of(levels if method == "replay" else steps)
    waits, uploads = counts.synchronizations.total(), counts.uploads
    what = f"{method}, {size}: {levels} levels" if method == "replay" else f"{method}, {size}: {steps} steps"
    of_uploads = str(UPLOADS) if method == "replay" else "-"  # the stepper is a baseline
    print(f"{what:24} {counts.launches:9,} {budget:7,} {uploads:9} {of_uploads:>7}", end=" ")
    print(f"{waits:7} {WAITS_OF_A_TRAINING_STEP:7}")
    is_one = uploads == UPLOADS or method != "replay"
    return is_one and counts.launches <= budget and waits <= WAITS_OF_A_TRAINING_STEP


def _parsing(settings: StackParserSettings) -> bool:
    choose = running_batch.best_transitions
    with SimulatedCuda() as cuda, mock.patch.object(running_batch, "best_transitions") as chosen:
        chosen.side_effect = choose
        cell = Cell("step", "infer", PARSED, cuda.name, settings)
        [rows] = cell.chosen()
        cuda.counted()
        cell.plugin.run(rows)
        counts, steps = cuda.counted(), chosen.call_count
    waits = counts.synchronizations_by_file()["parser/parsing/running_batch.py"]
    budget = steps // STEPS_BETWEEN_SYNCHRONISATIONS + 1  # one before the first step
    launches = f"{counts.launches / steps:.0f} launches each"
    print(f"\nparsing {len(rows)} sentences, {PARSED} at a time: {steps} steps with {launches},")
    print(f"the host waits {waits} times, of {budget}")
    return waits <= budget


if __name__ == "__main__":
    main()
