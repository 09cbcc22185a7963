"""Print the launches, uploads and waits of training steps and of parsing on a GPU, next to their budgets.

python scripts/studies/gpu/print_budgets.py
python scripts/studies/gpu/print_budgets.py --treebank FILE.conllu

The network is that of Ding & Koehn 2019. The counts come from a simulated GPU. The exit status is 1 if a
budget is exceeded.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import nullcontext
from pathlib import Path
from unittest import mock

import torch

sys.path.insert(0, str(Path(__file__).parents[2]))  # modules shared by scripts

from simulated_cuda.counts import LAUNCHES, UPLOADS, WAITS_OF_A_TRAINING_STEP
from simulated_cuda.device import SimulatedCuda

from parser.models.settings import ParserSettings
from parser.parsing import running_batch
from parser.parsing.running_batch import STEPS_BETWEEN_SYNCHRONISATIONS
from parser.speed.tasks.plugin import Mode, Setup
from parser.speed.tasks.stack_parser.stack_parser_plugin import StackParserPlugin, StackParserSettings

NETWORK = {
    "word_size": 32,
    "tag_sizes": {"upos": 12},
    "token_size": 60,
    "hidden_size": 200,
    "layers": 2,
    "transition_size": 48,
}
SIZES = 1, 8, 64, 256
PARSED = 64
"""The number of rows of the batch in parsing."""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--treebank", default="data/quickstart/train.conllu", help="CoNLL-U file")
    parser = ParserSettings.model_validate({"network": NETWORK})
    treebank = options.parse_args().treebank
    settings = StackParserSettings(treebank=treebank, parser=parser, trained_batches=0)
    torch.set_num_threads(1)
    print("a training step           launches  budget   uploads  budget   waits  budget")
    kept = [_training(method, size, settings) for method in LAUNCHES for size in SIZES]
    kept.append(_parsing(settings))
    sys.exit(0 if all(kept) else 1)


def _prepared(settings: StackParserSettings, method: str, mode: Mode, size: int) -> StackParserPlugin:
    plugin = StackParserPlugin()
    plugin.prepare(Setup(settings, method, mode, size, SimulatedCuda.name, 1, lambda name: nullcontext()))
    return plugin


def _training(method: str, size: int, settings: StackParserSettings) -> bool:
    """Print a line for a training step with a batch of median length. Returns whether budgets are kept."""
    with SimulatedCuda() as cuda:
        plugin = _prepared(settings, method, "train", size)
        examples, batches = plugin.parts.examples, plugin.batches()
        by_length = sorted(batches, key=lambda rows: float(examples.tokens.lengths[rows].float().mean()))
        rows = by_length[len(batches) // 2]
        plugin.run(rows)  # makes the optimizer's state
        cuda.counted()
        plugin.run(rows)
        counts = cuda.counted()
    if method == "replay":
        repetitions, what = int(examples.levels[rows].max()), "levels"
    else:  # the stepper, a baseline whose uploads have no budget
        repetitions, what = int(examples.trajectories.steps.lengths[rows].max()), "steps"
    budget, waits, uploads = LAUNCHES[method].of(repetitions), counts.synchronizations.total(), counts.uploads
    of_uploads = str(UPLOADS) if method == "replay" else "-"
    print(f"{f'{method}, {size}: {repetitions} {what}':24} {counts.launches:9,} {budget:7,}", end=" ")
    print(f"{uploads:9} {of_uploads:>7} {waits:7} {WAITS_OF_A_TRAINING_STEP:7}")
    is_one = uploads == UPLOADS or method != "replay"
    return is_one and counts.launches <= budget and waits <= WAITS_OF_A_TRAINING_STEP


def _parsing(settings: StackParserSettings) -> bool:
    choose = running_batch.best_transitions
    with SimulatedCuda() as cuda, mock.patch.object(running_batch, "best_transitions") as chosen:
        chosen.side_effect = choose
        plugin = _prepared(settings, "step", "infer", PARSED)
        rows = plugin.batches()[0]
        cuda.counted()
        plugin.run(rows)
        counts, steps = cuda.counted(), chosen.call_count
    waits = counts.synchronizations_by_file()["parser/parsing/running_batch.py"]
    budget = steps // STEPS_BETWEEN_SYNCHRONISATIONS + 1  # one before the first step
    launches = f"{counts.launches / steps:.0f} launches each"
    print(f"\nparsing {len(rows)} sentences, {PARSED} at a time: {steps} steps with {launches},")
    print(f"the host waits {waits} times, of {budget}")
    return waits <= budget


if __name__ == "__main__":
    main()
