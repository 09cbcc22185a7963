"""The forward and backward computation of a batch of equal operations.

Values are vectors, and a batch holds them as rows. Operations are independent of the graph and of the order
in which batches run. `run_forward` and `run_backward` check what an operation of a user may forget: an
output, a gradient or a parameter. They read no values, so they neither wait for a device nor launch anything.
"""

from __future__ import annotations

import dis
from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import cache
from itertools import chain
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.graph import increment_version

from parser.batching.functional import transposed_times

HOW_TO = 'see docs/batching.md, "Your own cells and modules"'

ALL = slice(None)


class OperationBatch:
    """Equal operations that run as one batch.

    >>> batch = OperationBatch(inputs=[torch.ones(2, 3)], outputs=[torch.empty(2, 3)], index=None)
    >>> torch.mul(batch.inputs[0], 2, out=batch.outputs[0]).tolist()  # in an operation's `forward`
    [[2.0, 2.0, 2.0], [2.0, 2.0, 2.0]]
    """

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

    def empty_gradient(self, number: int) -> Tensor:
        """Return a tensor for the gradient of an input, from `input_gradients` or new, with any contents."""
        given = self.input_gradients[number]
        return torch.empty_like(self.inputs[number]) if given is None else given


class OperationGradients(NamedTuple):
    """The result of a batch's backward pass.

    >>> OperationGradients((torch.ones(2, 3), None)).kept  # the second input has no gradient
    ()
    """

    inputs: Sequence[Tensor | None]
    """The gradient with respect to each input, in the input's shape; None for zero."""
    kept: tuple[Tensor, ...] = ()
    """Tensors from which `accumulate` computes the parameters' gradients, for many batches at a time."""


class Operation:
    """A kind of computation. Operations with equal signatures can run in one batch.

    >>> class Square(Operation):
    ...     def __init__(self, width):
    ...         self.outputs = (width,)
    ...     def signature(self):
    ...         return type(self), self.outputs
    ...     def forward(self, batch):
    ...         torch.square(batch.inputs[0], out=batch.outputs[0])
    ...     def backward(self, batch, gradients):
    ...         return OperationGradients((2 * gradients[0] * batch.inputs[0],))
    >>> graph = Graph("agenda", "cpu")
    >>> values = graph.add_values(torch.tensor([[1.0, 2], [3, 4]]))
    >>> squares = [graph.operate(Square(2), (value,))[0] for value in values]
    >>> graph.values(squares).tolist()
    [[1.0, 4.0], [9.0, 16.0]]
    """

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


class ParameterGradients:
    """Sums of the gradients of parameters over all batches of a backward pass.

    Parameters that need no gradients are left out.

    >>> gradients, weight = ParameterGradients(), torch.zeros(2, 3, requires_grad=True)
    >>> gradients.add_product(weight, gradient=torch.ones(5, 2), inputs=torch.ones(5, 3))  # in `accumulate`
    >>> gradients.of(weight).tolist()
    [[5.0, 5.0, 5.0], [5.0, 5.0, 5.0]]
    """

    def __init__(self) -> None:
        self._sums: dict[Tensor, Tensor] = {}

    def add(self, parameter: Tensor, gradient: Tensor) -> None:
        """Add a gradient, in the parameter's shape. Nobody else must modify it later.

        Raises ValueError for another shape.
        """
        if not parameter.requires_grad:
            return
        if gradient.shape != parameter.shape:
            raise ValueError(
                f"a gradient of shape {list(gradient.shape)} for a parameter of shape {list(parameter.shape)}"
            )
        total = self._sums.get(parameter)
        if total is None:
            self._sums[parameter] = gradient if gradient.is_sparse else gradient.contiguous()
        elif total.is_sparse or gradient.is_sparse:
            self._sums[parameter] = _sum(total, gradient)
        else:
            total += gradient

    def add_product(self, weight: Tensor, gradient: Tensor, inputs: Tensor) -> None:
        """Add gradient.T @ inputs to the gradient of a weight.

        weight: [out, in]; gradient: [rows, out], with respect to the outputs; inputs: [rows, in].
        """
        if weight.requires_grad:
            self.add(weight, transposed_times(gradient, inputs))

    def add_sum(self, bias: Tensor, gradient: Tensor) -> None:
        """Add the sum of rows. bias: [out]; gradient: [rows, out], with respect to the outputs."""
        if bias.requires_grad:
            self.add(bias, gradient.sum(0))

    def add_rows(self, table: Tensor, rows: Tensor, gradient: Tensor, sparse: bool) -> None:
        """Add gradients [rows, width] of table rows. table: [entries, width]; rows: [rows], their numbers."""
        if not table.requires_grad:
            return
        if sparse:
            shape = table.shape
            self.add(table, torch.sparse_coo_tensor(rows[None], gradient, shape, check_invariants=False))
            return
        if table not in self._sums:
            self._sums[table] = torch.zeros_like(table)
        elif self._sums[table].is_sparse:
            self._sums[table] = self._sums[table].to_dense()
        self._sums[table].index_add_(0, rows, gradient)

    def all(self) -> Iterable[Tensor]:
        """Return the parameters with gradients."""
        return self._sums

    def of(self, parameter: Tensor) -> Tensor | None:
        """Return the gradient of a parameter; None if no batch has added any."""
        return self._sums.get(parameter)

    def add_to_parameters(self) -> None:
        """Add all gradients to the parameters' `.grad`."""
        for parameter, gradient in self._sums.items():
            parameter.grad = gradient if parameter.grad is None else _sum(parameter.grad, gradient)


def _sum(first: Tensor, second: Tensor) -> Tensor:
    """Return first + second. PyTorch adds a sparse tensor to a dense one, but not the other way round."""
    return second + first if first.is_sparse else first + second


def concatenate_kept(batches: Sequence[tuple[Tensor, ...]]) -> list[Tensor]:
    """Return the kept tensors, each concatenated over the batches.

    >>> [kept] = concatenate_kept([(torch.ones(1, 2),), (torch.zeros(1, 2),)])
    >>> kept.tolist()
    [[1.0, 1.0], [0.0, 0.0]]
    """
    return [concatenate_rows(parts) for parts in zip(*batches, strict=True)]


def concatenate_rows(parts: Sequence[Tensor]) -> Tensor:
    """Concatenate the rows; the result is a view if the parts are views of adjacent rows."""
    first, offset = parts[0], parts[0].storage_offset()
    storage, strides = first.untyped_storage().data_ptr(), first.stride()
    for part in parts:
        if (part.storage_offset(), part.untyped_storage().data_ptr(), part.stride()) != (
            offset,
            storage,
            strides,
        ):
            return torch.cat(list(parts))
        offset += len(part) * strides[0]
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


def check_operation(operation: Operation) -> None:
    """Raises TypeError for anything but an operation with the widths of its outputs."""
    if not isinstance(operation, Operation):
        kind = operation.__name__ if isinstance(operation, type) else type(operation).__name__
        raise TypeError(
            f"{kind} is no operation: `Module(layer, widths)` makes one of a layer, and a subclass of "
            f"Operation must be called to make one; {HOW_TO}"
        )
    widths: object = operation.outputs
    if not isinstance(widths, tuple) or not widths or not all(isinstance(width, int) for width in widths):
        raise TypeError(
            f"{operation.name} has the `outputs` {widths!r}: they must be the widths of its results, a tuple "
            f"of at least one number, such as (4,); {HOW_TO}"
        )


def run_forward(operation: Operation, batch: OperationBatch) -> None:
    """Run `Operation.forward`. Raises ValueError if it does not write an output."""
    # Rows of one block share PyTorch's count of changes; as `data`, each tensor has one of its own.
    given, batch.outputs = batch.outputs, [output.data for output in batch.outputs]
    returned: Any = operation.forward(batch)  # type: ignore[func-returns-value]
    if given[0].is_inference():  # tensors of `torch.inference_mode` do not count changes
        return
    for number, output in enumerate(batch.outputs):
        if not output._version:
            instead = "" if returned is None else f", but returned {_kind(returned)}"
            target = f"batch.outputs[{number}]"
            raise ValueError(
                f"{operation.name}.forward has not written output {number}{instead}: write into "
                f"`batch.outputs`, by `{target}.copy_(result)` or `out={target}`. If something other than "
                "PyTorch writes there, call `torch.autograd.graph.increment_version` of it afterwards"
            )
        increment_version(given[number])  # of a cell, which may have given it


def run_backward(
    operation: Operation, batch: OperationBatch, gradients: Sequence[Tensor]
) -> OperationGradients:
    """Run `Operation.backward`. Raises TypeError and ValueError for results that do not fit the operation."""
    result: Any = operation.backward(batch, gradients)
    if type(result) is not OperationGradients or isinstance(result.inputs, Tensor):
        given = "inputs that are one tensor" if type(result) is OperationGradients else _kind(result)
        raise TypeError(
            f"{operation.name}.backward returned {given}: it must return "
            f"`OperationGradients((gradient, ...))`, with a gradient for each input; {HOW_TO}"
        )
    inputs = batch.inputs
    if len(result.inputs) != len(inputs):
        raise ValueError(
            f"{operation.name}.backward returned {len(result.inputs)} gradients for {len(inputs)} inputs: "
            "give one for each, None for zero"
        )
    for number, (gradient, input_) in enumerate(zip(result.inputs, inputs, strict=True)):
        if gradient is None:
            continue
        if (
            not isinstance(gradient, Tensor)
            or gradient.shape != input_.shape
            or gradient.dtype != input_.dtype
        ):
            raise ValueError(
                f"{operation.name}.backward returned {_kind(gradient)} as the gradient of input {number}, "
                f"which is {_kind(input_)}"
            )
    if len(result.kept) != operation.kept:
        raise ValueError(
            f"{operation.name}.backward returned {len(result.kept)} kept tensors, but its `kept` is "
            f"{operation.kept}"
        )
    return result


def trained_parameters(operations: Iterable[Operation]) -> dict[Tensor, Operation]:
    """Return the parameters that need gradients, each with the first operation that reads it.

    Raises ValueError if an operation reads a tensor that needs a gradient, but is not among its parameters.
    """
    trained: dict[Tensor, Operation] = {}
    for operation in operations:
        for part in operation.parts():
            _check_declared(part)
        for parameter in operation.parameters:
            if parameter.requires_grad:
                trained.setdefault(parameter, operation)
    return trained


def _check_declared(operation: Operation) -> None:
    declared = {id(parameter) for parameter in operation.parameters}
    for name, value in (*vars(operation).items(), *_closed_over(type(operation).forward)):
        several = value.values() if isinstance(value, dict) else value
        for each in several if isinstance(value, (dict, list, tuple)) else (value,):
            # Of a module, an operation may read only a part.
            read = each.parameters() if isinstance(each, nn.Module) else [each]
            trained = {id(one) for one in read if isinstance(one, Tensor) and one.requires_grad}
            if trained and declared.isdisjoint(trained):
                raise ValueError(
                    f"{operation.name} reads `{name}`, which needs a gradient and would get none: name it in "
                    f"`parameters` and add its gradient in `accumulate`, or detach it; {HOW_TO}"
                )


def _closed_over(function: object) -> Iterator[tuple[str, object]]:
    """Yield the names and values of variables outside a function that it reads, as far as they exist."""
    if not isinstance(function, FunctionType):
        return
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            value = cell.cell_contents
        except ValueError:  # a variable without a value yet
            continue
        yield name, value
    for name in _global_names(function.__code__):
        if name in function.__globals__:
            yield name, function.__globals__[name]


@cache
def _global_names(code: CodeType) -> tuple[str, ...]:
    names = {step.argval: None for step in dis.get_instructions(code) if step.opname == "LOAD_GLOBAL"}
    nested = [_global_names(inner) for inner in code.co_consts if isinstance(inner, CodeType)]
    return tuple(names | dict.fromkeys(chain.from_iterable(nested)))


def _kind(result: object) -> str:
    """Describe what was returned."""
    if isinstance(result, Tensor):
        return f"a tensor of shape {list(result.shape)} and {result.dtype}"
    return f"a {type(result).__name__}"
