"""Synchronous training of the digit classifier with stale gradients, all late by the same number of updates.

The gradient of batch t is computed from the weights at that time, and applied LATE updates later. The
network, images and settings are those of the experiment `mnist` in configs/speed/messages.yaml.

python scripts/studies/batching/late_gradients.py --late 0 3 15 --epochs 6 --seeds 3 --rows rows.jsonl
"""

from __future__ import annotations

import argparse
from collections import deque
from itertools import product
from pathlib import Path

import torch
from torch import Tensor

from parser.speed.tasks.digits.mnist_mlp_plugin import (
    DIGIT_CLASSES,
    DigitClassifier,
    MnistSettings,
    load_digits,
)
from parser.speed.tasks.message_training import accuracy
from parser.system.provenance import append_stamped
from parser.system.pytorch import tune_process

IMAGES = "${PARSER_DATA}/mnist/t10k-images-idx3-ubyte.gz"
LABELS = "${PARSER_DATA}/mnist/t10k-labels-idx1-ubyte.gz"
HELD_OUT, BATCH = 2000, 100


class LateUpdates:
    """Steps of an optimizer with gradients that are `late` updates old.

    The first `late` steps are skipped.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, late: int):
        self._optimizer, self._late = optimizer, late
        self._weights: list[Tensor] = [
            weight for group in optimizer.param_groups for weight in group["params"]
        ]
        self._waiting: deque[list[Tensor | None]] = deque()

    def step(self, loss: Tensor) -> None:
        """Compute the gradients of a loss, and apply those that are due."""
        self._optimizer.zero_grad()
        loss.backward()
        self._waiting.append([weight.grad for weight in self._weights])
        if len(self._waiting) > self._late:
            for weight, gradient in zip(self._weights, self._waiting.popleft(), strict=True):
                weight.grad = gradient
            self._optimizer.step()


def learn(settings: MnistSettings, late: int, epochs: int, seed: int) -> list[float]:
    """The accuracy on held-out images after each epoch."""
    images, labels = load_digits(settings, seed)
    end = len(images) - settings.held_out
    torch.manual_seed(seed)
    widths = [images.shape[1], *[settings.hidden_size] * len(settings.tiles), DIGIT_CLASSES]
    network = DigitClassifier(widths, settings.tiles)
    updates = LateUpdates(settings.optimizer(network.parameters()), late)
    scores = []
    for epoch in range(1, epochs + 1):
        order = torch.randperm(end, generator=torch.Generator().manual_seed(1000 * seed + epoch))
        for batch in order.split(BATCH):
            updates.step(network.losses((images[batch], labels[batch])).loss)
        with torch.no_grad():
            held_out = network.losses((images[end:], labels[end:]))
        scores.append(accuracy([held_out]))
    return scores


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument(
        "--late", type=int, nargs="+", default=[0, 3, 15], help="ages of the gradients to try, in updates"
    )
    arguments.add_argument("--rates", type=float, nargs="+", default=[5e-4], help="learning rates to try")
    arguments.add_argument("--epochs", type=int, default=6, help="epochs of each run")
    arguments.add_argument("--seeds", type=int, default=1, help="number of runs, with the seeds 1, 2, …")
    arguments.add_argument("--rows", type=Path, help="JSON Lines file to which each run is appended")
    given = arguments.parse_args()
    torch.set_num_threads(1)
    tune_process()
    for late, rate, seed in product(given.late, given.rates, range(1, given.seeds + 1)):
        settings = MnistSettings(
            images=IMAGES, labels=LABELS, held_out=HELD_OUT, learning_rate=rate, momentum=0.0
        )
        scores = learn(settings, late, given.epochs, seed)
        shown = " ".join(f"{100 * score:.1f}" for score in scores)
        print(f"{late:2} late, rate {rate:g}, seed {seed}: {shown} %", flush=True)
        if given.rows:
            row = {"late": late, "seed": seed, "scores": scores, "settings": settings.model_dump()}
            append_stamped(given.rows, row)


if __name__ == "__main__":
    main()
