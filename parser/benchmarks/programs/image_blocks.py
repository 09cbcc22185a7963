"""Blocks of convolutions on small images (Johnson et al. 2017), as modules and as operations of a graph.

An image is a row of a graph's values. On a CPU its channels are innermost, which oneDNN's convolutions like
best; on a GPU outermost, which cuDNN's do in full float32.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from parser.batching.operations.operation import Operation, OperationBatch, OperationGradients, joined


class Grid(NamedTuple):
    channels: int
    side: int

    @property
    def width(self) -> int:
        """Of an image as a row."""
        return self.channels * self.side * self.side

    def images(self, rows: Tensor) -> Tensor:
        """[n, channels, side, side] A view of rows [n, width]."""
        if channels_last(rows.device):
            return rows.view(-1, self.side, self.side, self.channels).permute(0, 3, 1, 2)
        return rows.view(-1, self.channels, self.side, self.side)


def channels_last(device: torch.device) -> bool:
    """Whether an image's channels are innermost in its row, and in a convolution's weights."""
    return device.type == "cpu"


def rows(images: Tensor) -> Tensor:
    """[n, width] A view, where memory is in that order. images: [n, channels, side, side]"""
    ordered = images.permute(0, 2, 3, 1) if channels_last(images.device) else images
    return ordered.reshape(len(images), -1)


def arranged(images: Tensor) -> Tensor:
    """With the order of memory that suits their device. images: [n, channels, side, side]"""
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
    """From two images to one: a convolution of both, one on the other, and a residual block."""

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
        self.outputs = (grid.width,)

    def signature(self) -> Hashable:
        return type(self), id(self._module)


class ApplyResidual(_OnImages):
    """A `ResidualBlock`."""

    kept = 4

    def __init__(self, block: ResidualBlock, grid: Grid):
        super().__init__(block, grid)
        self._block = block

    def forward(self, batch: OperationBatch) -> None:
        image, output = map(self._grid.images, (*batch.inputs, *batch.outputs))
        batch.saved = _residual(self._block, image, output)

    def backward(self, batch: OperationBatch, gradients: Sequence[Tensor]) -> OperationGradients:
        image, output, at_output = map(self._grid.images, (*batch.inputs, *batch.outputs, *gradients))
        at_image, kept = _residual_backward(self._block, image, batch.saved, output, at_output)
        return OperationGradients([rows(at_image)], kept)

    def accumulate(self, batches: Sequence[tuple[Tensor, ...]]) -> None:
        _add_residual_gradients(self._block, self._grid, joined(batches))


class ApplyJoining(_OnImages):
    """A `JoiningBlock`."""

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
        output, at_output = map(self._grid.images, (*batch.outputs, *gradients))
        at_image, kept = _residual_backward(self._block, image, inner, output, at_output)
        at_image = _through_relu(at_image, image)
        at_left, at_right = _at_input(self._join, at_image, both).chunk(2, dim=1)
        return OperationGradients([rows(at_left), rows(at_right)], (*kept, rows(at_image), rows(both)))

    def accumulate(self, batches: Sequence[tuple[Tensor, ...]]) -> None:
        *of_block, at_image, both = joined(batches)
        _add_residual_gradients(self._block, self._grid, of_block)
        _add_gradients(self._join, self._grid.images(at_image), self._both.images(both))


def operation_of(block: nn.Module, grid: Grid) -> tuple[Operation, int]:
    """That of either block, and how many images it takes."""
    if isinstance(block, ResidualBlock):
        return ApplyResidual(block, grid), 1
    assert isinstance(block, JoiningBlock)
    return ApplyJoining(block, grid), 2


def _residual(block: ResidualBlock, image: Tensor, output: Tensor) -> Tensor:
    """Write the output; returns what lies between the convolutions. All: [rows, channels, side, side]."""
    inner = block.first(image).relu_()
    torch.add(block.second(inner), image, out=output).relu_()
    return inner


def _residual_backward(
    block: ResidualBlock, image: Tensor, inner: Tensor, output: Tensor, at_output: Tensor
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """The gradient at the image, and the rows that `_add_residual_gradients` needs."""
    at_sum = _through_relu(at_output, output)
    at_inner = _through_relu(_at_input(block.second, at_sum, inner), inner)
    at_image = _at_input(block.first, at_inner, image).add_(at_sum)
    return at_image, (rows(at_inner), rows(image), rows(at_sum), rows(inner))


def _add_residual_gradients(block: ResidualBlock, grid: Grid, kept: Sequence[Tensor]) -> None:
    at_inner, image, at_sum, inner = map(grid.images, kept)
    _add_gradients(block.first, at_inner, image)
    _add_gradients(block.second, at_sum, inner)


def _through_relu(gradient: Tensor, output: Tensor) -> Tensor:
    return torch.ops.aten.threshold_backward(gradient, output, 0)


def _at_input(layer: nn.Conv2d, gradient: Tensor, images: Tensor) -> Tensor:
    return _convolution_backward(layer, gradient, images, [True, False, False])[0]


def _add_gradients(layer: nn.Conv2d, gradient: Tensor, images: Tensor) -> None:
    """Add the parameters' to their `.grad`."""
    found = _convolution_backward(layer, gradient, images, [False, True, True])[1:]
    assert layer.bias is not None
    for parameter, part in zip((layer.weight, layer.bias), found, strict=True):
        parameter.grad = part if parameter.grad is None else parameter.grad.add_(part)


def _convolution_backward(
    layer: nn.Conv2d, gradient: Tensor, images: Tensor, wanted: list[bool]
) -> tuple[Tensor, ...]:
    """Those wanted of the gradients at the images, the weights and the bias."""
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
