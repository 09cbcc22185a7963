"""A network that is put together anew for each question (Johnson et al. 2017): a module for each function of
its program, from images to images.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils import convert_conv2d_weight_memory_format

from parser.batching.levels import Integers, batches
from parser.batching.operations.graph import Graph
from parser.batching.operations.layout import Applications
from parser.batching.operations.operation import Operation
from parser.batching.operations.template import Template
from parser.batching.operations.writer import Value
from parser.benchmarks.programs.image_blocks import (
    Grid,
    JoiningBlock,
    ResidualBlock,
    channels_last,
    operation_of,
    rows,
)

COLUMNS, LEVELS = LABELLINGS = ("columns", "levels")
"""By the place in the program, the first first; or by the greatest distance from the root, deepest first."""

AROUND, CHANGE, CERTAINTY = 0.2, 0.3, 0.01
"""To begin with: weights of the cells around a convolution's own, of what a block adds, of the last layer."""


@dataclass(frozen=True)
class ExecutorSizes:
    features: int
    """Channels of the images that are given."""
    side: int
    """Of the images, in cells."""
    channels: int
    """Of what passes between modules."""
    projected: int
    """Channels of the classifier's first layer; hidden: elements of its second."""
    hidden: int
    unary: int
    """Modules of one image; binary: of two."""
    binary: int
    answers: int


@dataclass(frozen=True)
class ProgramCalls:
    """A program's calls of modules, those before others that these use.

    Value 0 is the image, value n + 1 what call n gives.
    """

    module: Integers
    """[calls]"""
    first: Integers
    """[calls] The value that each is given."""
    second: Integers
    """[calls] The other value that it is given; of unary modules -1."""
    depth: Integers
    """[calls] The greatest distance from a root, a call that no other uses."""
    results: Integers
    """[results] The values that are asked for."""


class ProgramExecutor(nn.Module):
    """blocks: the modules, first the unary ones, then the binary ones."""

    def __init__(self, sizes: ExecutorSizes):
        super().__init__()
        self.sizes, self.grid = sizes, Grid(sizes.channels, sizes.side)
        channels, pooled = sizes.channels, sizes.side // 2
        self.stem = nn.Sequential(
            nn.Conv2d(sizes.features, channels, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1),
            nn.ReLU(),
        )
        unary = [ResidualBlock(channels) for _ in range(sizes.unary)]
        self.blocks = nn.ModuleList([*unary, *(JoiningBlock(channels) for _ in range(sizes.binary))])
        self.classifier = nn.Sequential(
            nn.Conv2d(channels, sizes.projected, 1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(sizes.projected * pooled * pooled, sizes.hidden),
            nn.ReLU(),
            nn.Linear(sizes.hidden, sizes.answers),
        )
        _initialise(self)

    def arranged_for(self, device: torch.device) -> ProgramExecutor:
        """Itself on the device, its weights in the order of memory that images have there."""
        order = torch.channels_last if channels_last(device) else torch.contiguous_format
        return convert_conv2d_weight_memory_format(self.to(device), order)

    def scores(self, results: Tensor) -> Tensor:
        """[results, answers] results: [results, width] rows of images."""
        return self.classifier(self.grid.images(results))


@torch.no_grad()
def _initialise(executor: ProgramExecutor) -> None:
    """As Johnson et al., by He's normal distribution, but so that a few thousand questions teach something.

    A convolution begins by looking mostly at its own cell, a block by changing its image little, and the
    classifier by treating all places alike: what it learns of a thing here it need not learn of one there.
    """
    for part in executor.modules():
        if isinstance(part, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(part.weight)
        if isinstance(part, nn.Conv2d) and part.kernel_size == (3, 3):
            centre = 3 * part.weight[:, :, 1, 1]
            part.weight *= AROUND
            part.weight[:, :, 1, 1] = centre
    for part in executor.modules():
        if isinstance(part, ResidualBlock):
            part.second.weight *= CHANGE
    hidden, answers = (part for part in executor.classifier if isinstance(part, nn.Linear))
    of_a_place = torch.empty(len(hidden.weight), executor.sizes.projected)
    nn.init.kaiming_normal_(of_a_place)
    hidden.weight[:] = of_a_place.repeat_interleave(hidden.in_features // executor.sizes.projected, 1)
    nn.init.normal_(answers.weight, std=CERTAINTY)


class Numbered(NamedTuple):
    """The calls of some programs. Value n is the image of program n; then come what the calls give."""

    module: Integers
    """[calls]"""
    given: Integers
    """[calls, 2] The values that each is given; of unary modules only the first counts."""
    level: Integers
    """[calls]"""
    results: Integers
    """[results] The values that are asked for, program by program."""
    programs: int

    @property
    def number(self) -> Integers:
        """[calls] Of the value that each gives."""
        return self.programs + np.arange(len(self.module))

    def batches(self) -> list[Integers]:
        """Calls of one level and module together."""
        return batches(self.level, self.module)


def number_calls(programs: Sequence[ProgramCalls], labelling: str) -> Numbered:
    """labelling: one of `LABELLINGS`."""
    sizes = np.array([len(calls.module) for calls in programs])
    start = len(programs) + np.cumsum(sizes) - sizes  # of each program, the value that its first call gives

    def numbered(own: list[Integers]) -> Integers:
        """Values of each program, which are together its own."""
        counts = list(map(len, own))
        program, first = np.repeat(np.arange(len(programs)), counts), np.repeat(start, counts)
        values = np.concatenate(own)
        return np.where(values == 0, program, values - 1 + first)

    arguments = ([calls.first for calls in programs], [calls.second for calls in programs])
    given = np.stack([numbered(own) for own in arguments], axis=1)  # [calls, 2]
    if labelling == LEVELS:
        level = -np.concatenate([calls.depth for calls in programs])
    else:
        level = np.concatenate([np.arange(size) for size in sizes])
    results = numbered([calls.results for calls in programs])
    module = np.concatenate([calls.module for calls in programs])
    return Numbered(module, given, level, results, len(programs))


class RecordedExecutor:
    """In a graph, program by program, or for many programs at once as calls known in advance."""

    def __init__(self, executor: ProgramExecutor, wrap: Callable[[Operation], Operation]):
        """wrap: of the modules' operations, what is recorded in their place."""
        self._templates = [_template(block, executor.grid, wrap) for block in executor.blocks]

    def results(self, graph: Graph, images: Sequence[Value], programs: Sequence[ProgramCalls]) -> list[Value]:
        """Program by program. images: of each, that of its question."""
        return [
            value
            for image, calls in zip(images, programs, strict=True)
            for value in self._results(graph, image, calls)
        ]

    def _results(self, graph: Graph, image: Value, calls: ProgramCalls) -> list[Value]:
        values = [image]
        columns = (calls.module.tolist(), calls.first.tolist(), calls.second.tolist())
        for module, *places in zip(*columns, strict=True):
            template = self._templates[module]
            values += graph.apply(template, [values[place] for place in places[: template.arguments]])
        return [values[place] for place in calls.results.tolist()]

    def calls(self, numbered: Numbered) -> list[Applications]:
        """As `StaticComputation` takes them."""
        number, nothing = numbered.number, np.empty((len(numbered.module), 0), np.int64)
        found = []
        for which in batches(numbered.module):
            template = self._templates[numbered.module[which[0]]]
            arguments = numbered.given[which, : template.arguments]
            found.append(
                Applications(template, number[which], arguments, nothing[which], numbered.level[which])
            )
        return found


def _template(block: nn.Module, grid: Grid, wrap: Callable[[Operation], Operation]) -> Template:
    operation, images = operation_of(block, grid)
    return Template.of(wrap(operation), (grid.width,) * images)


def results_by_slices(executor: ProgramExecutor, images: Tensor, numbered: Numbered) -> Tensor:
    """[results, width] As the paper's authors do it: rows are put together by `cat`, taken apart by slices.

    Differentiated by torch, which for each slice fills a tensor of zeros as large as the whole batch: the
    backward pass writes as many elements as the square of a call's rows. images: [programs, channels, side,
    side]
    """
    values = list(images.split(1)) + [images] * len(numbered.module)
    number = numbered.number
    for which in numbered.batches():
        block = executor.blocks[numbered.module[which[0]]]
        arguments = 1 if isinstance(block, ResidualBlock) else 2
        columns = numbered.given[which, :arguments].T.tolist()
        outputs = block(*(torch.cat([values[place] for place in column]) for column in columns))
        for row, place in enumerate(number[which].tolist()):
            values[place] = outputs[row : row + 1]
    return rows(torch.cat([values[place] for place in numbered.results.tolist()]))
