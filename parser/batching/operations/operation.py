"""The forward and backward computation of a batch of equal operations.

Values are vectors, and a batch holds them as rows. Operations are independent of the graph and of the order
in which batches run.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from parser.batching.operations.parameter_gradients import ParameterGradients

HOW_TO = 'see docs/batching.md, "Your own cells and modules"'
ALL = slice(None)


class OperationBatch:
    """Equal operations that run as one batch."""

    __slots__ = ("index", "input_gradients", "inputs", "outputs", "saved")

    def __init__(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], index: Tensor | None):
        self.inputs = inputs
        """[rows, width] each. They can be views of other batches' outputs and must not be modified."""
        self.outputs = outputs
        """[rows, width] each, filled by `forward`."""
        self.index = index
        """[rows], if the operation takes an index."""
        self.saved: Any = None
        """What `forward` saves for `backward`."""
        self.input_gradients: Sequence[Tensor | None] = (None,) * len(inputs)
        """Tensors into which `backward` can write the gradients of inputs, to save copies; None for none."""

    def empty_gradient(self, place: int) -> Tensor:
        """Return a tensor for the gradient of an input, from `input_gradients` or new, with any contents."""
        found = self.input_gradients[place]
        return torch.empty_like(self.inputs[place]) if found is None else found


class OperationGradients(NamedTuple):
    """The result of a batch's backward pass."""

    inputs: Sequence[Tensor | None]
    """The gradient with respect to each input, in the input's shape; None for zero."""
    kept: tuple[Tensor, ...] = ()
    """Tensors from which `accumulate` computes the parameters' gradients, for many batches at a time."""


class Operation:
    """A kind of computation. Operations with equal signatures can run in one batch."""

    outputs: tuple[int, ...] = ()
    """The widths of the output values, at least one."""
    has_index = False
    """Whether each application takes an integer: a row of a table, or a label."""
    index_bound: int | None = None
    """Upper bound (exclusive) of that integer; None if unknown."""
    is_product = False
    """Whether it is expensive, such as a matrix product.

    The agenda breaks ties in favour of cheap operations.
    """
    parameters: tuple[Tensor, ...] = ()
    """All parameters that the operation reads, trained or not. Only these get gradients, in `accumulate`."""
    kept = 0
    """The number of tensors in `OperationGradients.kept`; at least one if parameters are trained."""
    keeps_rows = True
    """Whether kept tensors are rows, collected over batches; otherwise they are added after each batch."""
    only_gathers = False
    """Whether `accumulate` merely concatenates, so that unbatched runs need not call it per batch."""
    columns = ALL
    """The columns of the inputs that the operation reads. `OperationBatch.inputs` holds only these."""

    @property
    def name(self) -> str:
        """The name in messages."""
        return type(self).__name__

    def signature(self) -> Hashable:
        """Return a key that is equal for operations that can share a batch (Neubig et al. 2017, appendix A).

        Parameters are compared by identity. All values of a graph have one dtype and one device.
        """
        raise NotImplementedError(
            f"{self.name} has no `signature`: it must return a key that is equal for operations that can "
            f"share a batch, such as `type(self), self.outputs`; {HOW_TO}"
        )

    def packs(self, arguments: int) -> tuple[tuple[int, ...], ...]:
        """Return groups of arguments of equal width, each passed as one input [rows, number * width].

        By default, there are no groups.
        """
        return tuple((argument,) for argument in range(arguments))

    def forward(self, batch: OperationBatch) -> None:
        """Write the results into `batch.outputs`, such as by `torch.add(..., out=batch.outputs[0])`."""
        raise NotImplementedError(f"{self.name} has no `forward`; {HOW_TO}")

    def backward(self, batch: OperationBatch, gradients: Sequence[Tensor]) -> OperationGradients:
        """Compute the gradients of a batch.

        gradients: with respect to the outputs, [rows, width] each; must not be modified.
        """
        raise NotImplementedError(f"{self.name} has no `backward`; {HOW_TO}")

    def accumulate(self, batches: Sequence[tuple[Tensor, ...]], gradients: ParameterGradients) -> None:
        """Add the parameters' gradients of some batches. batches: the kept tensors of each batch."""

    def parts(self) -> Sequence[Operation]:
        """Return the operations that it consists of."""
        return (self,)


def check_operation(operation: Operation) -> None:
    """Raises TypeError for anything but an operation with the widths of its outputs."""
    if not isinstance(operation, Operation):
        found = operation.__name__ if isinstance(operation, type) else type(operation).__name__
        raise TypeError(
            f"{found} is no operation: `Module(layer, widths)` makes one of a layer, and a subclass of "
            f"Operation must be called to make one; {HOW_TO}"
        )
    widths: object = operation.outputs
    if not isinstance(widths, tuple) or not widths or not all(isinstance(own, int) for own in widths):
        raise TypeError(
            f"{operation.name} has the `outputs` {widths!r}: they must be the widths of its results, a tuple "
            f"of at least one number, such as (4,); {HOW_TO}"
        )


def concatenate_kept(batches: Sequence[tuple[Tensor, ...]]) -> list[Tensor]:
    """Return the kept tensors, each concatenated over the batches."""
    return [concatenate_rows(parts) for parts in zip(*batches, strict=True)]


def concatenate_rows(parts: Sequence[Tensor]) -> Tensor:
    """Concatenate the rows; the result is a view if the parts are views of adjacent rows."""
    first, place = parts[0], parts[0].storage_offset()
    storage, strides = first.untyped_storage().data_ptr(), first.stride()
    for part in parts:
        if (part.storage_offset(), part.untyped_storage().data_ptr(), part.stride()) != (
            place,
            storage,
            strides,
        ):
            return torch.cat(list(parts))
        place += len(part) * strides[0]
    return first.as_strided((sum(map(len, parts)), *first.shape[1:]), strides)


def leaf(parameter: Tensor, *dimensions: str) -> Tensor:
    """Return the parameter, if gradients can be added to its `.grad`.

    dimensions: the names of the required dimensions; none: any dimensions. Raises ValueError for a tensor
    that is not a leaf or has other dimensions, and TypeError for anything but a tensor.
    """
    if not isinstance(parameter, Tensor):
        raise TypeError(
            f"a parameter must be a tensor, not {type(parameter).__name__}: of a layer, give its `weight` "
            "and `bias`"
        )
    if dimensions and parameter.dim() != len(dimensions):
        raise ValueError(
            f"a parameter must be of shape [{', '.join(dimensions)}], not of {list(parameter.shape)}"
        )
    if parameter.requires_grad and not parameter.is_leaf:
        raise ValueError("a parameter must be a leaf tensor, and must not be computed from others")
    return parameter
