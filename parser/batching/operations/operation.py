"""What a batch of equal operations computes, forward and backward.

Values are vectors; a batch's values are rows. An operation knows neither single examples, nor the graph, nor
the order in which batches run.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from parser.batching.product import transposed_times

ALL = slice(None)


class OperationBatch:
    """Equal operations that run as one."""

    __slots__ = ("index", "inputs", "outputs", "saved")

    def __init__(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], index: Tensor | None):
        self.inputs = inputs
        """[rows, width] each; maybe views of other batches' outputs, so not to be changed."""
        self.outputs = outputs
        """[rows, width] each, to be written by `forward`."""
        self.index = index
        """[rows], of an operation that has one."""
        self.saved: Any = None
        """What `forward` leaves for `backward`."""


class OperationGradients(NamedTuple):
    """What flows back through a batch."""

    inputs: Sequence[Tensor | None]
    """Of each input, in its shape; None for nothing."""
    kept: tuple[Tensor, ...] = ()
    """Rows from which the parameters' gradients are computed, those of many batches at a time."""


class Operation:
    """A kind of computation. Two with equal signatures can be one batch."""

    outputs: tuple[int, ...]
    """The widths of the values that it gives."""
    has_index = False
    """Whether each application comes with an integer: a row of a table, or a label."""
    indices: int | None = None
    """The integer must be below; None if that is not known."""
    is_product = False
    """Whether it is dear, as matrix products are; among equals the agenda takes cheap ones first."""
    kept = 0
    """How many tensors `backward` keeps for the parameters' gradients."""
    only_gathers = False
    """Whether `accumulate` only puts together what was kept, so that batches need no turns of their own."""
    columns = ALL
    """The columns of its inputs that it reads; `OperationBatch.inputs` has no others."""

    def signature(self) -> Hashable:
        """What must be equal (Neubig et al. 2017, appendix A): parameters take part by identity.

        All values of a graph are of one type and on one device.
        """
        raise NotImplementedError

    def packs(self, arguments: int) -> tuple[tuple[int, ...], ...]:
        """Which arguments, of equal width, are one input [rows, number * width]; unless said, each."""
        return tuple((argument,) for argument in range(arguments))

    def forward(self, batch: OperationBatch) -> None:
        raise NotImplementedError

    def backward(self, batch: OperationBatch, gradients: Sequence[Tensor]) -> OperationGradients:
        """gradients: of the outputs, [rows, width] each, not to be changed."""
        raise NotImplementedError

    def accumulate(self, batches: Sequence[tuple[Tensor, ...]]) -> None:
        """Add to the parameters' `.grad` what batches kept."""


def joined(batches: Sequence[tuple[Tensor, ...]]) -> list[Tensor]:
    """What batches kept, one tensor for each that a batch kept."""
    if len(batches) == 1:
        return list(batches[0])
    return [torch.cat(parts) for parts in zip(*batches, strict=True)]


def leaf(parameter: Tensor) -> Tensor:
    """The parameter, whose `.grad` can be added to. Raises ValueError for one that torch has computed."""
    if parameter.requires_grad and not parameter.is_leaf:
        raise ValueError("a parameter must not be computed from others, for its gradient would end there")
    return parameter


def add_product_gradient(parameter: Tensor, gradient: Tensor, inputs: Tensor) -> None:
    """Add that of parameter @ inputs. parameter: [out, in]; gradient: [rows, out]; inputs: [rows, in]."""
    if parameter.requires_grad:
        _add_gradient(parameter, transposed_times(gradient, inputs))


def add_sum_gradient(parameter: Tensor, gradient: Tensor) -> None:
    """Add that of a parameter [out] that is added to rows. gradient: [rows, out]."""
    if parameter.requires_grad:
        _add_gradient(parameter, gradient.sum(0))


def _add_gradient(parameter: Tensor, gradient: Tensor) -> None:
    if parameter.grad is None:
        parameter.grad = gradient.contiguous()
    else:
        parameter.grad += gradient
