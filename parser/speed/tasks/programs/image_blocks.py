"""Convolutional blocks on small images (Johnson et al. 2017), as modules and as operations of a graph.

An image is a value of a graph, flattened to a row. The memory format is channels-last on a CPU, which is
fastest with oneDNN, and channels-first on a GPU, which is fastest with cuDNN in full float32. `d_x` is the
gradient of the loss with respect to x.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from parser.batching.operations.operation import (
    Operation,
    OperationBatch,
    OperationGradients,
    ParameterGradients,
    concatenate_kept,
)


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
