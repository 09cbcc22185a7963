"""Linear layers on images of digits, trained by asynchronous messages (Gaunt et al. 2017, section 6).

The images are handwritten digits from MNIST's idx files (LeCun et al. 1998), or synthetic digits instead.

`none` trains batch by batch; `active-n` has n batches in flight, and the layers are distributed over workers.
"""

from __future__ import annotations

import gzip
import math
import zlib
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor, nn

from parser.batching.messages.asynchronous_updates import Updates
from parser.batching.messages.control_flow import Broadcast, ConcatenatePayloads
from parser.batching.messages.message_graph import (
    CONTROLLER,
    Loss,
    Losses,
    MessageGraph,
    Transform,
    losses_of,
)
from parser.batching.messages.workers import Controller, Entry, Instance
from parser.config.data_folder import data_path
from parser.speed.tasks.message_training import (
    ACTIVE,
    MESSAGE_METHODS,
    MESSAGE_TITLES,
    NEEDS_CPU,
    BatchMessagePlugin,
    MessageSettings,
    MessageTraining,
)
from parser.speed.tasks.operation_training import missing_file
from parser.speed.tasks.plugin import Methods, Plugin, Setup, Work, method, methods_of
from parser.system.files import content_of

DIGIT_CLASSES = 10
IMAGE_SIDE = 28
"""The height and width of an image, in pixels."""

UNSIGNED_BYTES = 8
"""The type code of unsigned bytes in idx files."""
GZIP_MAGIC = b"\x1f\x8b"
"""The first bytes of every gzip file."""


# Corners of a digit that is 2 wide and 4 high, x to the right and y down.
CORNERS = ((-1, -2), (1, -2), (-1, 0), (1, 0), (-1, 2), (1, 2))
# Strokes between corners: the seven segments of a pocket calculator's display.
STROKES = ((0, 1), (0, 2), (1, 3), (2, 3), (2, 4), (3, 5), (4, 5))
# The strokes of each digit, from 0 to 9.
STROKES_OF_DIGITS = (
    (1, 1, 1, 0, 1, 1, 1),
    (0, 0, 1, 0, 0, 1, 0),
    (1, 0, 1, 1, 1, 0, 1),
    (1, 0, 1, 1, 0, 1, 1),
    (0, 1, 1, 1, 0, 1, 0),
    (1, 1, 0, 1, 0, 1, 1),
    (1, 1, 0, 1, 1, 1, 1),
    (1, 0, 1, 0, 0, 1, 0),
    (1, 1, 1, 1, 1, 1, 1),
    (1, 1, 1, 1, 0, 1, 1),
)
DRAWN_TOGETHER = 500
"""Images per chunk, which limits the memory for the distances of all pixels from all strokes."""


def read_images(path: Path) -> Tensor:
    """[images, height, width] uint8, 0 for the background. MNIST images have 28 x 28 pixels.

    Raises ValueError unless it is a complete idx file of images, gzipped or not.
    """
    return _read_bytes(path, "images", dimensions=3)


def read_labels(path: Path) -> Tensor:
    """[images] int64, 0 to 9. Raises ValueError unless it is a complete idx file of such labels."""
    labels = _read_bytes(path, "labels", dimensions=1).long()
    wrong = (labels >= DIGIT_CLASSES).nonzero()
    if len(wrong):
        image = int(wrong[0])
        raise ValueError(f"{path}: label {image}, counted from 0, is {labels[image]}, which is no digit")
    return labels


def _read_bytes(path: Path, name: str, dimensions: int) -> Tensor:
    """Read the bytes of an idx file as uint8, in the shape given in the file."""
    content = content_of(path)
    if content.startswith(GZIP_MAGIC):
        try:
            content = gzip.decompress(content)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(f"{path}: not a complete gzip file: {error}") from None
    magic = bytes((0, 0, UNSIGNED_BYTES, dimensions))
    if content[:4] != magic:
        begins = content[:4].hex(" ") or "nothing"
        raise ValueError(
            f"{path}: not an idx file of {name}: it begins with {begins}, not with {magic.hex(' ')}"
        )
    start = 4 + 4 * dimensions
    if len(content) < start:
        raise ValueError(
            f"{path}: its header must have {start} bytes, and the file ends after {len(content)}"
        )
    shape = [int.from_bytes(content[place : place + 4], "big") for place in range(4, start, 4)]
    held = len(content) - start
    if held != math.prod(shape):
        due = f"{' x '.join(map(str, shape))} bytes of {name}"
        raise ValueError(f"{path}: {due} must follow its header, {math.prod(shape)} in all, and {held} do")
    return torch.from_numpy(np.frombuffer(content, np.uint8)[start:].reshape(shape).copy())


def generate_digits(number: int, seed: int) -> tuple[Tensor, Tensor]:
    """Images [number, 28, 28] uint8 and labels [number] int64, determined by the seed.

    Seven-segment digits with random position, height, width, slant, corners and thickness, on a noisy
    background. Trained on 20,000 of them, a linear classifier reaches 86 % on others, and a network with a
    hidden layer of 128 reaches almost 99 %.
    """
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(DIGIT_CLASSES, (number,), generator=generator)
    images = torch.empty(number, IMAGE_SIDE, IMAGE_SIDE, dtype=torch.uint8)
    for some, of in zip(images.split(DRAWN_TOGETHER), labels.split(DRAWN_TOGETHER), strict=True):
        count = len(of)
        crooked = 0.12 * torch.randn(count, len(CORNERS), 2, generator=generator)
        x, y = (torch.tensor(CORNERS) + crooked).unbind(2)  # [images, corners] each
        width, height = _between(3, 6, (count, 1), generator), _between(3, 5, (count, 1), generator)
        slant = _between(-0.3, 0.3, (count, 1), generator)
        corners = torch.stack([width * x - slant * height * y, height * y], dim=2)  # [images, corners, 2]
        corners = corners + IMAGE_SIDE / 2 + _between(-3, 3, (count, 1, 2), generator)  # in pixels
        begin, end = torch.tensor(STROKES).unbind(1)
        distances = _distances(corners[:, begin], corners[:, end])  # [images, strokes, pixels]
        absent = torch.tensor(STROKES_OF_DIGITS)[of] == 0  # [images, strokes]
        nearest = distances.masked_fill_(absent[:, :, None], math.inf).amin(dim=1)  # [images, pixels]
        thickness = _between(0.7, 1.7, (count, 1), generator)
        ink = (thickness + 0.5 - nearest).clamp(0, 1)
        noise = 0.1 * torch.randn(ink.shape, generator=generator)
        some.copy_(((ink + noise).clamp(0, 1) * 255).view_as(some))
    return images, labels


def _distances(begin: Tensor, end: Tensor) -> Tensor:
    """[images, strokes, pixels] Distances of pixel centres from strokes. begin, end: [images, strokes, 2]"""
    middle = torch.arange(IMAGE_SIDE) + 0.5
    rows, columns = torch.meshgrid(middle, middle, indexing="ij")
    pixels = torch.stack([columns.flatten(), rows.flatten()])  # [2, pixels]
    along = end - begin
    # The position on the line of the point nearest to a pixel, from 0 to 1.
    share = along @ pixels - (along * begin).sum(2, keepdim=True)
    share = (share / along.square().sum(2, keepdim=True)).clamp_(0, 1)
    x, y = (begin[..., axis, None] + along[..., axis, None] * share - pixels[axis] for axis in (0, 1))
    return torch.hypot(x, y)


def _between(least: float, most: float, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    return least + (most - least) * torch.rand(shape, generator=generator)


class DigitClassifier(nn.Module):
    """Linear layers with ReLUs in between. Each tile of a layer computes a slice of its outputs."""

    def __init__(self, widths: Sequence[int], tiles: Sequence[int]):
        """widths: of the input and of each layer's output; tiles: the number in each layer but the last.

        Raises ValueError if a layer cannot be divided into tiles of equal size.
        """
        super().__init__()
        for width, count in zip(widths[1:-1], tiles, strict=True):
            if width % count:
                raise ValueError(f"{width} outputs cannot be cut into {count} tiles of equal size")
        counts = [*tiles, 1]
        self.layers = [
            [nn.Linear(inputs, outputs // count) for _ in range(count)]
            for (inputs, outputs), count in zip(pairwise(widths), counts, strict=True)
        ]
        """The tiles of each layer."""
        self._layers = nn.ModuleList(map(nn.ModuleList, self.layers))

    def losses(self, batch: tuple[Tensor, Tensor]) -> Losses:
        """batch: images [images, pixels] and labels [images]"""
        rows, labels = batch
        for number, tiles in enumerate(self.layers, 1):
            rows = torch.cat([tile(rows) for tile in tiles], dim=1)
            if number < len(self._layers):
                rows = F.relu(rows)
        return losses_of(rows, labels)

    def graph(self, updates: Updates, workers: int) -> MessageGraph:
        """Tiles of a layer are on different workers. Adjacent layers of a single tile share a worker."""
        graph = MessageGraph()
        graph.add(CONTROLLER, Controller(outputs=2))
        last = CONTROLLER
        for number, tiles in enumerate(self.layers):
            worker = number * workers // len(self._layers)
            is_last = number + 1 == len(self._layers)
            parts = [tile if is_last else nn.Sequential(tile, nn.ReLU()) for tile in tiles]
            last = _add_layer(graph, f"layer {number + 1}", last, parts, updates, worker, workers)
        graph.add("loss", Loss(losses_of), workers - 1)
        graph.chain(last, "loss", CONTROLLER)
        graph.connect((CONTROLLER, 1), ("loss", 1))
        return graph

    @staticmethod
    def instance(number: int, batch: tuple[Tensor, Tensor], training: bool) -> Instance:
        """batch: as in `losses`."""
        images, labels = batch
        return Instance(number, [Entry(0, (images,)), Entry(1, (labels,))], training=training)


def _add_layer(
    graph: MessageGraph,
    name: str,
    before: str,
    tiles: Sequence[nn.Module],
    updates: Updates,
    worker: int,
    workers: int,
) -> str:
    """Add a layer, and return its last node. worker: runs the layer, or the node that joins its tiles."""
    if len(tiles) == 1:
        graph.add(name, updates.of(tiles[0]), worker)
        graph.connect(before, name)
        return name
    copies, parts, whole = f"{name}: copies", f"{name}: parts", f"{name}: whole"
    graph.add(copies, Broadcast(len(tiles)), worker)
    graph.add(parts, ConcatenatePayloads(len(tiles)), worker)
    graph.add(whole, Transform(lambda _, *columns: torch.cat(columns, dim=1)), worker)
    graph.chain(before, copies)
    for number, tile in enumerate(tiles):
        node = f"{name}, tile {number + 1}"
        graph.add(node, updates.of(tile), number % workers)
        graph.connect((copies, number), node)
        graph.connect(node, (parts, number))
    graph.connect(parts, whole)
    return whole


class MnistSettings(MessageSettings):
    images: str | None = None
    """File of images in MNIST's idx format; ${PARSER_DATA} stands for the data folder. null: synthetic
    digits."""
    labels: str | None = None
    made: int = Field(256, gt=0)
    """Number of synthetic digits."""
    held_out: int = Field(0, ge=0)
    """Number of images at the end that are held out."""
    hidden_size: int = Field(784, gt=0)
    tiles: list[Annotated[int, Field(gt=0)]] = Field([1, 1, 1], min_length=1)
    """Number of tiles of each layer, on different workers. The last layer is not listed; it has one tile."""

    @model_validator(mode="after")
    def _whole(self) -> MnistSettings:
        if bool(self.images) != bool(self.labels):
            raise ValueError("images and labels: give both, or none for synthetic digits")
        if wrong := next((count for count in self.tiles if self.hidden_size % count), None):
            raise ValueError(
                f"tiles: hidden_size {self.hidden_size} cannot be cut into {wrong} tiles of equal size"
            )
        return self


DigitBatch = tuple[Tensor, Tensor]
"""[images, pixels], from 0 to 1, and labels [images]."""


TASK = "mnist_mlp"
METHODS = methods_of(TASK)


@method(TASK, *MESSAGE_METHODS)
def by_batches_or_messages(setup: Setup[MnistSettings], network: DigitClassifier) -> MessageTraining:
    return MessageTraining(setup, network, network, setup.settings.updates, ACTIVE.get(setup.method))


class MnistPlugin(BatchMessagePlugin):
    name = "mnist_mlp"
    paper = "Gaunt et al. 2017, Table 1 (MNIST)"
    methods: ClassVar[Methods] = METHODS
    method_titles: ClassVar[dict[str, str]] = MESSAGE_TITLES
    example_name: ClassVar[str] = "images"
    Settings = MnistSettings

    def skip(self, setup: Setup[MnistSettings]) -> str | None:
        settings = setup.settings
        if setup.device.type != "cpu":
            return NEEDS_CPU
        return METHODS.chosen(setup).skip(setup) or missing_file(settings.images, settings.labels)

    def prepare(self, setup: Setup[MnistSettings]) -> None:
        self.setup = setup
        settings = setup.settings
        images, labels = load_digits(settings, setup.seed)
        end = len(images) - settings.held_out
        if end < 1:
            raise ValueError(f"held_out: {settings.held_out} of {len(images)} images leave none to train on")
        self._train, self._held_out = (images[:end], labels[:end]), (images[end:], labels[end:])
        torch.manual_seed(setup.seed)
        widths = [images.shape[1], *[settings.hidden_size] * len(settings.tiles), DIGIT_CLASSES]
        self._network = DigitClassifier(widths, settings.tiles)
        self.messages = METHODS.chosen(setup).make(setup, self._network)

    def training_batches(self, seed: int) -> list[DigitBatch]:
        order = torch.randperm(len(self._train[0]), generator=torch.Generator().manual_seed(seed))
        return self._cut(self._train, order)

    def held_out_batches(self) -> list[DigitBatch]:
        return self._cut(self._held_out, torch.arange(len(self._held_out[0])))

    def checked_batches(self) -> list[DigitBatch]:
        return self._cut(self._train, torch.arange(len(self._train[0]))[: self.setup.checked])

    def work(self, batch: Sequence[DigitBatch]) -> Work:
        images = sum(len(labels) for _, labels in batch)
        weights = [layer.weight.numel() for tiles in self._network.layers for layer in tiles]
        first = sum(layer.weight.numel() for layer in self._network.layers[0])
        # The backward pass needs two products for each forward product, but the images need no gradient.
        return Work(
            images, images, 2.0 * images * (3 * sum(weights) - first), padding=0.0, batches=len(batch)
        )

    def _cut(self, images_and_labels: DigitBatch, order: Tensor) -> list[DigitBatch]:
        images, labels = images_and_labels
        return [(images[rows], labels[rows]) for rows in order.split(self.setup.batch_size)]


def load_digits(settings: MnistSettings, seed: int) -> DigitBatch:
    """Read or generate digits. Raises ValueError for broken files, and if they do not belong together."""
    if settings.images and settings.labels:
        images, labels = (
            read_images(Path(data_path(settings.images))),
            read_labels(Path(data_path(settings.labels))),
        )
    else:
        images, labels = generate_digits(settings.made, seed)
    if len(images) != len(labels):
        given = f"{settings.images} has {len(images)} images, but {settings.labels} {len(labels)} labels"
        raise ValueError(given)
    return images.flatten(1).float() / 255, labels


PLUGIN: type[Plugin[MnistSettings]] = MnistPlugin
