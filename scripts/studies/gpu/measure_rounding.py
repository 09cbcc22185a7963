"""Measure how far two trainings of a few epochs drift apart because of rounding alone.

PARSER_DATA=../data python scripts/studies/gpu/measure_rounding.py rows.jsonl --seeds 1 2 --draws 0 1 2

Each training has the seed's initial weights, multiplied by 1 + noise * x, where x is normally distributed.
Draw 0 has no noise. A noise of 1e-6 changes a weight by a few times the rounding error of float32: about what
another order of the same sums changes. Training with CUDA graphs, which pads batches, also sums in another
order; `train_seeds.py` compares it.

For each training, a row with the dev scores and the losses after the last epoch is appended to the file.
"""

from __future__ import annotations

import argparse
import sys
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parents[2]))  # modules shared by scripts

from gpu_visit.training import CONFIG, Run

from parser.batching.functional import set_precision
from parser.evaluation.evaluate import evaluate
from parser.system.device_choice import choose_device
from parser.system.provenance import append_stamped
from parser.system.pytorch import tune_process
from parser.training.config import Config, read_config
from parser.training.epoch import running_loss
from parser.training.loop import mean_loss


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("rows", type=Path, help="JSON Lines file")
    options.add_argument("--config", type=Path, default=CONFIG, help=f"default {CONFIG}")
    options.add_argument("--set", dest="changes", action="append", default=[], metavar="KEY=VALUE")
    options.add_argument("--epochs", type=int, default=3)
    options.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    options.add_argument("--draws", type=int, nargs="+", default=[0, 1, 2], help="of the noise; 0: none")
    options.add_argument("--noise", type=float, default=1e-6)
    given = options.parse_args()
    tune_process()
    for draw, seed in product(given.draws, given.seeds):
        config = read_config(
            given.config, [*given.changes, f"training.seed={seed}", f"training.epochs={given.epochs}"]
        )
        noise = given.noise if draw else 0.0
        row = {"what": "rounding", "config": str(given.config), "seed": seed, "noise": noise, "draw": draw}
        row |= {"epochs": given.epochs, "cuda_graphs": config.training.cuda_graphs}
        row |= trained(config, noise, draw)
        append_stamped(given.rows, row)
        print(f"seed {seed}, draw {draw}: dev LAS {row['dev_las']:.2f}, dev loss {row['dev_loss']:.4f}")


def trained(config: Config, noise: float, draw: int) -> dict[str, Any]:
    """Train for the config's epochs. Returns the dev scores and the losses after the last one."""
    device = torch.device(choose_device(config.device))
    torch.set_num_threads(config.threads)
    set_precision(config.training.precision, device)
    run = Run.begin(config, device)
    multiply_by_noise(list(run.model.network.parameters()), noise, draw)
    for epoch in range(1, config.training.epochs + 1):
        for _ in run.steps():
            pass
        loss, dev_loss = running_loss(run.training), mean_loss(run.model, run.data.dev)
        run.training.schedule.after_epoch(epoch, dev_loss)
        run.end_epoch()
    scores = evaluate(run.model, run.data.dev_sentences)
    return {
        "device": device.type,
        "threads": config.threads,
        "loss": loss,
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
