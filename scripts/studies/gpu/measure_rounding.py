"""Measure how far two trainings of a few epochs drift apart because of rounding alone.

PARSER_DATA=../data python scripts/studies/gpu/measure_rounding.py rows.jsonl --seeds 1 2 --draws 0 1 2

Each training has the seed's initial weights, multiplied by 1 + noise * x, where x is normally distributed.
Draw 0 has no noise. A noise of 1e-6 changes a weight by a few times the rounding error of float32: about what
another order of the same sums changes. Training with CUDA graphs, which pads batches, also sums in another
order. On a GPU, --graphs trains each parser with and without graphs.

For each training, a row with the dev scores and the losses after the last epoch is appended to the file.
"""

from __future__ import annotations

import argparse
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from parser.batching.functional import set_precision
from parser.evaluation.evaluate import evaluate
from parser.system.device_choice import choose_device
from parser.system.machine import append_stamped, tune_process
from parser.training import data
from parser.training.config import Config, read_config
from parser.training.epoch import running_loss, train_epoch
from parser.training.loop import mean_loss
from parser.training.prepared import cache_folder
from parser.training.run import new_training

CONFIG = Path("configs/ding-koehn-2019-ewt.yaml")


def main() -> None:
    options = _options()
    tune_process()
    for draw, seed, graphs in product(options.draws, options.seeds, (False, True)[: 1 + options.graphs]):
        changes = [
            *options.changes,
            f"training.seed={seed}",
            f"training.epochs={options.epochs}",
            f"training.cuda_graphs={str(graphs).lower()}",
        ]
        noise = options.noise if draw else 0.0
        row = {"seed": seed, "noise": noise, "draw": draw, "cuda_graphs": graphs, "epochs": options.epochs}
        row |= trained(read_config(options.config, changes), noise, draw)
        append_stamped(options.rows, {"what": "rounding", "config": str(options.config), **row})
        print(
            f"seed {seed}, draw {draw}, graphs {graphs}: dev LAS {row['dev_las']:.2f}, "
            f"dev loss {row['dev_loss']:.4f}",
            flush=True,
        )


def _options() -> argparse.Namespace:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("rows", type=Path, help="JSON Lines file")
    options.add_argument("--config", type=Path, default=CONFIG, help=f"default {CONFIG}")
    options.add_argument("--set", dest="changes", action="append", default=[], metavar="KEY=VALUE")
    options.add_argument("--epochs", type=int, default=3)
    options.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    options.add_argument("--draws", type=int, nargs="+", default=[0, 1, 2], help="of the noise; 0: none")
    options.add_argument("--noise", type=float, default=1e-6)
    options.add_argument("--graphs", action="store_true", help="with and without CUDA graphs")
    return options.parse_args()


def trained(config: Config, noise: float, draw: int) -> dict[str, Any]:
    """Train for the config's epochs. Returns the dev scores and the losses after the last one."""
    device, settings = choose_device(config.device), config.training
    torch.set_num_threads(config.threads)
    set_precision(settings.precision, device)
    torch.manual_seed(settings.seed)
    model, loaded = data.load(config, device, cache_folder())
    multiply_by_noise(list(model.network.parameters()), noise, draw)
    training = new_training(model, loaded, config)
    for epoch in range(1, settings.epochs + 1):
        for _ in train_epoch(loaded, settings, training):
            pass
        dev_loss = mean_loss(model, loaded.dev)
        training.schedule.after_epoch(epoch, dev_loss)
        training.progress.epoch, training.progress.batches = epoch + 1, 0
    scores = evaluate(model, loaded.dev_sentences)
    return {
        "device": device.type,
        "threads": config.threads,
        "loss": running_loss(training),
        "dev_loss": dev_loss,
        "dev_uas": scores.uas,
        "dev_las": scores.las,
    }


@torch.no_grad()
def multiply_by_noise(weights: list[Tensor], noise: float, draw: int) -> None:
    """Multiply each weight by 1 + noise * x in place. draw: the number of the sample of x."""
    generator = torch.Generator().manual_seed(draw)
    for weight in weights:
        factor = 1 + noise * torch.randn(weight.shape, generator=generator)
        weight.mul_(factor.to(weight.device))


if __name__ == "__main__":
    main()
