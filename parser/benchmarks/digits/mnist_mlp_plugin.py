"""Linear layers on images of digits, trained by asynchronous messages (Gaunt et al. 2017, section 6).

`none` trains batch by batch; `active-n` has n batches in flight, and the layers are distributed over workers.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, ClassVar

import torch
from pydantic import Field, model_validator
from torch import Tensor

from parser.batching.messages.parameterised import Updates
from parser.benchmarks.digits.mnist import CLASSES, made_digits, read_images, read_labels
from parser.benchmarks.digits.network import DigitClassifier
from parser.benchmarks.message_training import (
    ACTIVE,
    METHOD_TITLES,
    METHODS,
    NEEDS_CPU,
    MessageSettings,
    MessageTraining,
    share_right,
)
from parser.benchmarks.operation_training import cut, missing
from parser.config import data_path
from parser.plugins import Mode, Setup, Work

CHECKED = 12
"""Images on which the methods must agree."""


class MnistSettings(MessageSettings):
    images: str | None = None
    """In MNIST's idx format; ${PARSER_DATA} stands for the data folder. null: synthetic digits."""
    labels: str | None = None
    made: int = Field(256, gt=0)
    """The number of synthetic digits."""
    held_out: int = Field(0, ge=0)
    """The number of images, at the end, that are held out."""
    hidden_size: int = Field(784, gt=0)
    tiles: list[Annotated[int, Field(gt=0)]] = Field([1, 1, 1], min_length=1)
    """The number of tiles of each layer, on different workers; the last layer, not counted, has one."""

    @model_validator(mode="after")
    def _whole(self) -> MnistSettings:
        if bool(self.images) != bool(self.labels):
            raise ValueError("images and labels: give both, or none for synthetic digits")
        if wrong := next((count for count in self.tiles if self.hidden_size % count), None):
            raise ValueError(
                f"tiles: hidden_size {self.hidden_size} cannot be cut into {wrong} tiles of equal size"
            )
        return self


Images = tuple[Tensor, Tensor]
"""[images, pixels], from 0 to 1, and labels [images]."""


class MnistPlugin:
    name = "mnist_mlp"
    paper = "Gaunt et al. 2017, Table 1 (MNIST)"
    methods: ClassVar[dict[Mode, tuple[str, ...]]] = {"train": METHODS}
    method_titles: ClassVar[dict[str, str]] = METHOD_TITLES
    example_name: ClassVar[str] = "images"
    Settings = MnistSettings

    def skip(self, setup: Setup) -> str | None:
        settings: MnistSettings = setup.settings
        if setup.device.type != "cpu":
            return NEEDS_CPU
        given = (settings.images, settings.labels)
        return next((reason for path in given if path and (reason := missing(data_path(path)))), None)

    def prepare(self, setup: Setup) -> None:
        self._setup = setup
        settings: MnistSettings = setup.settings
        images, labels = load(settings, setup.seed)
        end = len(images) - settings.held_out
        if end < 1:
            raise ValueError(f"held_out: {settings.held_out} of {len(images)} images leave none to train on")
        self._train, self._held_out = (images[:end], labels[:end]), (images[end:], labels[end:])
        torch.manual_seed(setup.seed)
        widths = [images.shape[1], *[settings.hidden_size] * len(settings.tiles), CLASSES]
        self._network = DigitClassifier(widths, settings.tiles)
        updates = Updates(
            settings.optimizer, settings.update_after, backward_weights=settings.backward_weights
        )
        self.messages = MessageTraining(
            setup, self._network, self._network, updates, ACTIVE.get(setup.method)
        )

    def batches(self) -> list[list[Images]]:
        order = list(range(len(self._train[0])))
        random.Random(self._setup.seed).shuffle(order)
        return cut(self._cut(self._train, torch.tensor(order)), self._setup.settings.together)

    def run(self, batch: Sequence[Images]) -> None:
        self.messages.run(batch, training=True)

    def check(self) -> Tensor:
        return self.messages.loss_and_gradients(
            self._cut(self._train, torch.arange(len(self._train[0]))[:CHECKED])
        )

    def learn(self, epoch: int) -> None:
        generator = torch.Generator().manual_seed(epoch)
        order = torch.randperm(len(self._train[0]), generator=generator)
        self.messages.run(self._cut(self._train, order), training=True)
        self.messages.end_epoch()

    def score(self) -> float:
        """The accuracy on held-out images. Raises ValueError if there are none."""
        held_out = self._cut(self._held_out, torch.arange(len(self._held_out[0])))
        return share_right(self.messages.run(held_out, training=False).reports)

    def notes(self) -> dict[str, float]:
        return self.messages.notes()

    def work(self, batch: Sequence[Images]) -> Work:
        images = sum(len(labels) for _, labels in batch)
        weights = [layer.weight.numel() for tiles in self._network.layers for layer in tiles]
        first = sum(layer.weight.numel() for layer in self._network.layers[0])
        # The backward pass has two products for each, but the images need no gradient.
        return Work(
            images, images, 2.0 * images * (3 * sum(weights) - first), padding=0.0, batches=len(batch)
        )

    def _cut(self, images_and_labels: Images, places: Tensor) -> list[Images]:
        images, labels = images_and_labels
        return [(images[own], labels[own]) for own in places.split(self._setup.batch_size)]


def load(settings: MnistSettings, seed: int) -> Images:
    """Raises ValueError for broken files, and for those that do not belong together."""
    if settings.images and settings.labels:
        images, labels = (
            read_images(Path(data_path(settings.images))),
            read_labels(Path(data_path(settings.labels))),
        )
    else:
        images, labels = made_digits(settings.made, seed)
    if len(images) != len(labels):
        given = f"{settings.images} has {len(images)} images, but {settings.labels} {len(labels)} labels"
        raise ValueError(given)
    return images.flatten(1).float() / 255, labels


PLUGIN = MnistPlugin
