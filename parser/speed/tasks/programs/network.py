"""A network that is assembled for each question: one module, from images to images, for each function of its
program (Johnson et al. 2017).

The modules are convolutional blocks, which are also operations of a graph. An image is a value of a graph,
flattened to a row. The memory format is channels-last on a CPU, which is fastest with oneDNN, and
channels-first on a GPU, which is fastest with cuDNN in full float32. `d_x` is the gradient of the loss with
respect to x.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import convert_conv2d_weight_memory_format

from parser.batching.levels import Integers, batches
from parser.batching.operations.operation import (
    Operation,
    OperationBatch,
    OperationGradients,
    ParameterGradients,
    concatenate_kept,
)
from parser.batching.operations.operation_graph import Graph
from parser.batching.operations.static_computation import StaticApplications
from parser.batching.operations.template import Template
from parser.batching.operations.writer import Value


class Grid(NamedTuple):
    channels: int
    side: int

    @property
    def width(self) -> int:
        """The width of a flattened image."""
        return self.channels * self.side * self.side

    def images(self, rows: Tensor) -> Tensor:
        """[n, channels, side, side] A view of rows [n, width]."""
        if channels_last(rows.device):
            return rows.view(-1, self.side, self.side, self.channels).permute(0, 3, 1, 2)
        return rows.view(-1, self.channels, self.side, self.side)


def channels_last(device: torch.device) -> bool:
    """Whether images and convolution weights have the channels-last memory format."""
    return device.type == "cpu"


def rows(images: Tensor) -> Tensor:
    """[n, width] Flatten images, as a view if the memory format fits. images: [n, channels, side, side]"""
    ordered = images.permute(0, 2, 3, 1) if channels_last(images.device) else images
    return ordered.reshape(len(images), -1)


def in_device_format(images: Tensor) -> Tensor:
    """Convert images to the memory format of their device. images: [n, channels, side, side]"""
    last = channels_last(images.device)
    return images.contiguous(memory_format=torch.channels_last if last else torch.contiguous_format)


class ResidualBlock(nn.Module):
    """x -> ReLU(x + second(ReLU(first(x))))"""

    def __init__(self, channels: int):
        super().__init__()
        self.first, self.second = (nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2))

    def forward(self, images: Tensor) -> Tensor:
        return F.relu(images + self.second(F.relu(self.first(images))))


class JoiningBlock(nn.Module):
    """Joins two images by a convolution, with both concatenated along channels, and a residual block."""

    def __init__(self, channels: int):
        super().__init__()
        self.join = nn.Conv2d(2 * channels, channels, 1)
        self.block = ResidualBlock(channels)

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        return self.block(F.relu(self.join(torch.cat([left, right], 1))))


class _OnImages(Operation):
    is_product = True

    def __init__(self, module: nn.Module, grid: Grid):
        self._module, self._grid = module, grid
        self.parameters = tuple(module.parameters())
        self.outputs = (grid.width,)

    def signature(self) -> Hashable:
        return type(self), id(self._module)


class ApplyResidual(_OnImages):
    """A `ResidualBlock` as an operation."""

    kept = 4

    def __init__(self, block: ResidualBlock, grid: Grid):
        super().__init__(block, grid)
        self._block = block

    def forward(self, batch: OperationBatch) -> None:
        image, output = map(self._grid.images, (*batch.inputs, *batch.outputs))
        batch.saved = _residual(self._block, image, output)

    def backward(self, batch: OperationBatch, gradients: Sequence[Tensor]) -> OperationGradients:
        image, output, d_output = map(self._grid.images, (*batch.inputs, *batch.outputs, *gradients))
        d_image, kept = _residual_backward(self._block, image, batch.saved, output, d_output)
        return OperationGradients([rows(d_image)], kept)

    def accumulate(self, batches: Sequence[tuple[Tensor, ...]], gradients: ParameterGradients) -> None:
        _add_residual_gradients(self._block, self._grid, concatenate_kept(batches), gradients)


class ApplyJoining(_OnImages):
    """A `JoiningBlock` as an operation."""

    kept = 6

    def __init__(self, block: JoiningBlock, grid: Grid):
        super().__init__(block, grid)
        self._join, self._block = block.join, block.block
        self._both = Grid(2 * grid.channels, grid.side)

    def forward(self, batch: OperationBatch) -> None:
        left, right, output = map(self._grid.images, (*batch.inputs, *batch.outputs))
        both = torch.cat([left, right], 1)  # [rows, 2 * channels, side, side]
        image = self._join(both).relu_()
        batch.saved = both, image, _residual(self._block, image, output)

    def backward(self, batch: OperationBatch, gradients: Sequence[Tensor]) -> OperationGradients:
        both, image, inner = batch.saved
        output, d_output = map(self._grid.images, (*batch.outputs, *gradients))
        d_image, kept = _residual_backward(self._block, image, inner, output, d_output)
        d_image = _relu_backward(d_image, image)
        d_left, d_right = _input_gradient(self._join, d_image, both).chunk(2, dim=1)
        return OperationGradients([rows(d_left), rows(d_right)], (*kept, rows(d_image), rows(both)))

    def accumulate(self, batches: Sequence[tuple[Tensor, ...]], gradients: ParameterGradients) -> None:
        *of_block, d_image, both = concatenate_kept(batches)
        _add_residual_gradients(self._block, self._grid, of_block, gradients)
        _add_gradients(self._join, self._grid.images(d_image), self._both.images(both), gradients)


def operation_of(block: nn.Module, grid: Grid) -> tuple[Operation, int]:
    """The operation of a block, and the number of its input images."""
    if isinstance(block, ResidualBlock):
        return ApplyResidual(block, grid), 1
    assert isinstance(block, JoiningBlock)
    return ApplyJoining(block, grid), 2


def _residual(block: ResidualBlock, image: Tensor, output: Tensor) -> Tensor:
    """Write the output and return the hidden layer. All: [rows, channels, side, side]."""
    inner = block.first(image).relu_()
    torch.add(block.second(inner), image, out=output).relu_()
    return inner


def _residual_backward(
    block: ResidualBlock, image: Tensor, inner: Tensor, output: Tensor, d_output: Tensor
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """The gradient with respect to the image, and the rows for `_add_residual_gradients`."""
    d_sum = _relu_backward(d_output, output)
    d_inner = _relu_backward(_input_gradient(block.second, d_sum, inner), inner)
    d_image = _input_gradient(block.first, d_inner, image).add_(d_sum)
    return d_image, (rows(d_inner), rows(image), rows(d_sum), rows(inner))


def _add_residual_gradients(
    block: ResidualBlock, grid: Grid, kept: Sequence[Tensor], gradients: ParameterGradients
) -> None:
    d_inner, image, d_sum, inner = map(grid.images, kept)
    _add_gradients(block.first, d_inner, image, gradients)
    _add_gradients(block.second, d_sum, inner, gradients)


def _relu_backward(gradient: Tensor, output: Tensor) -> Tensor:
    return torch.ops.aten.threshold_backward(gradient, output, 0)


def _input_gradient(layer: nn.Conv2d, gradient: Tensor, images: Tensor) -> Tensor:
    return _convolution_backward(layer, gradient, images, [True, False, False])[0]


def _add_gradients(layer: nn.Conv2d, gradient: Tensor, images: Tensor, gradients: ParameterGradients) -> None:
    """Add the gradients of the layer's parameters. gradient: with respect to its outputs."""
    found = _convolution_backward(layer, gradient, images, [False, True, True])[1:]
    assert layer.bias is not None
    for parameter, part in zip((layer.weight, layer.bias), found, strict=True):
        gradients.add(parameter, part)


def _convolution_backward(
    layer: nn.Conv2d, gradient: Tensor, images: Tensor, wanted: list[bool]
) -> tuple[Tensor, ...]:
    """The requested gradients among those of images, weights and bias."""
    return torch.ops.aten.convolution_backward(
        gradient,
        images,
        layer.weight,
        [layer.out_channels],
        layer.stride,
        layer.padding,
        layer.dilation,
        False,
        [0, 0],
        layer.groups,
        wanted,
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
        grid = executor.grid
        operations = (operation_of(block, grid) for block in executor.blocks)
        self._templates = [
            Template.of(wrap(operation), (grid.width,) * images) for operation, images in operations
        ]

    def results(self, graph: Graph, images: Sequence[Value], programs: Sequence[ProgramCalls]) -> Integers:
        """[results] The numbers of the results, program by program. images: one per program."""
        results: list[int] = []
        for image, calls in zip(images, programs, strict=True):
            values = [image]
            columns = (calls.module.tolist(), calls.first.tolist(), calls.second.tolist())
            for module, *places in zip(*columns, strict=True):
                template = self._templates[module]
                values += graph.apply(template, [values[place] for place in places[: template.arguments]])
            results += [values[place].number for place in calls.results.tolist()]
        return np.array(results, np.int64)

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
