"""A network that is assembled for each question: one module, from images to images, for each function of its
program (Johnson et al. 2017).
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
from parser.batching.operations.operation import Operation
from parser.batching.operations.operation_graph import Graph
from parser.batching.operations.static_computation import StaticApplications
from parser.batching.operations.template import Template
from parser.batching.operations.writer import Value
from parser.speed.tasks.programs.image_blocks import (
    Grid,
    JoiningBlock,
    ResidualBlock,
    channels_last,
    operation_of,
    rows,
)

BY_LEVELS = "levels"
LABELLINGS = "columns", BY_LEVELS
"""Calls are labelled by position in the program; or by greatest distance from the root, deepest first."""

OFF_CENTRE, RESIDUAL, LAST_LAYER = 0.2, 0.3, 0.01
"""Initial scales of a convolution's weights off its centre, of residuals, and of the last layer."""


@dataclass(frozen=True)
class ExecutorSizes:
    features: int
    """Channels of the input images."""
    side: int
    """Height and width of the images, in cells."""
    channels: int
    """Channels between modules."""
    projected: int
    """Channels of the classifier's first layer; hidden: units of its second layer."""
    hidden: int
    unary: int
    """The number of modules with one input; binary: of those with two inputs."""
    binary: int
    answers: int


@dataclass(frozen=True)
class ProgramCalls:
    """The calls of modules in a program, in topological order.

    Value 0 is the image, value n + 1 the result of call n.
    """

    module: Integers
    """[calls]"""
    first: Integers
    """[calls] The first argument, a value."""
    second: Integers
    """[calls] The second argument, -1 for unary modules."""
    depth: Integers
    """[calls] The greatest distance from a root, a call that no other uses."""
    results: Integers
    """[results] The values that are classified."""


class ProgramExecutor(nn.Module):
    """blocks: the modules, first all unary modules, then all binary modules."""

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
        """Move to the device, with the memory format of images on that device."""
        order = torch.channels_last if channels_last(device) else torch.contiguous_format
        return convert_conv2d_weight_memory_format(self.to(device), order)

    def scores(self, results: Tensor) -> Tensor:
        """[results, answers] results: [results, width] rows of images."""
        return self.classifier(self.grid.images(results))


@torch.no_grad()
def _initialise(executor: ProgramExecutor) -> None:
    """He's normal initialisation as in Johnson et al., adapted to learning from a few thousand questions.

    Convolutions start with small weights off the centre, residual blocks close to the identity, and the
    classifier with equal weights at all positions, so that it generalises across positions.
    """
    for part in executor.modules():
        if isinstance(part, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(part.weight)
        if isinstance(part, nn.Conv2d) and part.kernel_size == (3, 3):
            centre = 3 * part.weight[:, :, 1, 1]
            part.weight *= OFF_CENTRE
            part.weight[:, :, 1, 1] = centre
    for part in executor.modules():
        if isinstance(part, ResidualBlock):
            part.second.weight *= RESIDUAL
    hidden, answers = (part for part in executor.classifier if isinstance(part, nn.Linear))
    per_position = torch.empty(len(hidden.weight), executor.sizes.projected)
    nn.init.kaiming_normal_(per_position)
    hidden.weight[:] = per_position.repeat_interleave(hidden.in_features // executor.sizes.projected, 1)
    nn.init.normal_(answers.weight, std=LAST_LAYER)


class NumberedCalls(NamedTuple):
    """The calls of several programs. Value n is the image of program n, followed by the results of calls."""

    module: Integers
    """[calls]"""
    given: Integers
    """[calls, 2] The argument values; unary modules use only the first."""
    level: Integers
    """[calls]"""
    results: Integers
    """[results] The values that are classified, program by program."""
    programs: int

    @property
    def number(self) -> Integers:
        """[calls] The number of the value that each call computes."""
        return self.programs + np.arange(len(self.module))

    def batches(self) -> list[Integers]:
        """Batches of calls of equal level and module."""
        return batches(self.level, self.module)


def number_calls(programs: Sequence[ProgramCalls], labelling: str) -> NumberedCalls:
    """Number the calls of all programs. labelling: one of `LABELLINGS`."""
    sizes = np.array([len(calls.module) for calls in programs])
    start = len(programs) + np.cumsum(sizes) - sizes  # [programs] the result of the first call

    def numbered(own: list[Integers]) -> Integers:
        """Renumber the values of each program."""
        counts = list(map(len, own))
        program, first = np.repeat(np.arange(len(programs)), counts), np.repeat(start, counts)
        values = np.concatenate(own)
        return np.where(values == 0, program, values - 1 + first)

    arguments = ([calls.first for calls in programs], [calls.second for calls in programs])
    given = np.stack([numbered(own) for own in arguments], axis=1)  # [calls, 2]
    if labelling == BY_LEVELS:
        level = -np.concatenate([calls.depth for calls in programs])
    else:
        level = np.concatenate([np.arange(size) for size in sizes])
    results = numbered([calls.results for calls in programs])
    module = np.concatenate([calls.module for calls in programs])
    return NumberedCalls(module, given, level, results, len(programs))


class RecordedExecutor:
    """Programs recorded in a graph one by one, or as calls of a static structure for many programs."""

    def __init__(self, executor: ProgramExecutor, wrap: Callable[[Operation], Operation]):
        """wrap: maps the operation of each module to the operation that is recorded."""
        self._templates = [_template(block, executor.grid, wrap) for block in executor.blocks]

    def results(self, graph: Graph, images: Sequence[Value], programs: Sequence[ProgramCalls]) -> Integers:
        """[results] The numbers of the results, program by program. images: one per program."""
        each = zip(images, programs, strict=True)
        return np.array(
            [value.number for image, calls in each for value in self._results(graph, image, calls)], np.int64
        )

    def _results(self, graph: Graph, image: Value, calls: ProgramCalls) -> list[Value]:
        values = [image]
        columns = (calls.module.tolist(), calls.first.tolist(), calls.second.tolist())
        for module, *places in zip(*columns, strict=True):
            template = self._templates[module]
            values += graph.apply(template, [values[place] for place in places[: template.arguments]])
        return [values[place] for place in calls.results.tolist()]

    def calls(self, numbered: NumberedCalls) -> list[StaticApplications]:
        """The calls in the form for `StaticComputation`."""
        number, nothing = numbered.number, np.empty((len(numbered.module), 0), np.int64)
        found = []
        for which in batches(numbered.module):
            template = self._templates[numbered.module[which[0]]]
            arguments = numbered.given[which, : template.arguments]
            found.append(
                StaticApplications(template, number[which], arguments, nothing[which], numbered.level[which])
            )
        return found


def _template(block: nn.Module, grid: Grid, wrap: Callable[[Operation], Operation]) -> Template:
    operation, images = operation_of(block, grid)
    return Template.of(wrap(operation), (grid.width,) * images)


def results_by_slices(executor: ProgramExecutor, images: Tensor, numbered: NumberedCalls) -> Tensor:
    """[results, width] Like the authors' code: each call concatenates its inputs and slices its outputs.

    In autograd, the backward pass of each slice allocates zeros for the whole batch, so its cost is quadratic
    in the rows of a call. images: [programs, channels, side, side]
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
