"""How much faster training is by replay than by step: both in turns, on the same batches, in one run.

    python scripts/compare_step_and_replay.py configs/ud-english-ewt.yaml --batch-size 64 --threads 1

A training step is everything between two batches: putting the batch together, scores, loss, gradients,
clipping, Adam. Both ways train a network of their own from the same weights.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from parser.config_file import read_config
from parser.machine import choose_device
from parser.networks.examples import Batch, Examples
from parser.networks.loss import transition_loss
from parser.networks.stepper import step
from parser.parsing.model import Model
from parser.training import data
from parser.training.loop import epoch_batches, update


def main() -> None:
    options = arguments()
    if options.threads:
        torch.set_num_threads(options.threads)
    config = read_config(options.config, [*options.overrides, f"training.batch_size={options.batch_size}"])
    model, loaded = data.load(config, choose_device(config.device))
    batches = epoch_batches(loaded.train, config.training, epoch=1)[: options.batches]
    inventory = model.inventory
    stepping = copy.deepcopy(model.network)
    ways: dict[str, Callable[[Tensor], None]] = {
        "replay": training_step(model, model.network, loaded.train, model.network.replay),
        "step": training_step(model, stepping, loaded.train, lambda batch: step(stepping, inventory, batch)),
    }
    speeds: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(options.passes + 1):
        seconds = dict.fromkeys(ways, 0.0)
        for rows in batches:
            for name, run in ways.items():
                began = time.perf_counter()
                run(rows)
                synchronise(model.device)
                seconds[name] += time.perf_counter() - began
        if number:  # the first pass warms up: kernels are built for its shapes
            for name in ways:
                speeds[name].append(sum(map(len, batches)) / seconds[name])
    report(speeds, options)


def training_step(
    model: Model, network: nn.Module, examples: Examples, scores_of: Callable[[Batch], Tensor]
) -> Callable[[Tensor], None]:
    """A function that trains `network` on the sentences that it is given."""
    optimizer = torch.optim.Adam([w for w in network.parameters() if w.requires_grad], lr=1e-3, fused=True)
    network.train()

    def run(rows: Tensor) -> None:
        batch = examples.batch(rows).to(model.device)
        loss, steps = transition_loss(scores_of(batch), batch, model.inventory)
        update(optimizer, loss / steps, clip=5.0)

    return run


def synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def report(speeds: dict[str, list[float]], options: argparse.Namespace) -> None:
    threads = torch.get_num_threads()
    print(f"batches of {options.batch_size}, {options.batches} in a pass, in turns; {threads} CPU threads")
    for name, values in speeds.items():
        shown = " ".join(f"{value:,.0f}" for value in values)
        print(f"{name:<8}{statistics.median(values):8,.0f} sentences/s   passes: {shown}")
    ratios = [fast / slow for fast, slow in zip(speeds["replay"], speeds["step"], strict=True)]
    print(f"replay / step {statistics.median(ratios):.2f}   {min(ratios):.2f} to {max(ratios):.2f}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("config", type=Path)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batches", type=int, default=40, help="in each pass")
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="KEY=VALUE")
    return parser.parse_args()


if __name__ == "__main__":
    try:
        main()
    except (ValueError, OSError) as error:
        sys.exit(f"{error} (PARSER_DATA names the folder of the treebanks)")
