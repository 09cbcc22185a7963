"""Calls of operations, checked: an operation of a user may forget an output, a gradient or a parameter.

The checks read no values, so they neither wait for a device nor launch anything.
"""

from __future__ import annotations

import dis
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import chain
from types import CodeType, FunctionType
from typing import Any

from torch import Tensor, nn
from torch.autograd.graph import increment_version

from parser.batching.operations.operation import HOW_TO, Operation, OperationBatch, OperationGradients


def run_forward(operation: Operation, batch: OperationBatch) -> None:
    """Run `Operation.forward`. Raises ValueError if it does not write an output."""
    # Rows of one block share PyTorch's count of changes; as `data`, each tensor has one of its own.
    given, batch.outputs = batch.outputs, [output.data for output in batch.outputs]
    returned: Any = operation.forward(batch)  # type: ignore[func-returns-value]
    if given[0].is_inference():  # tensors of `torch.inference_mode` do not count changes
        return
    for place, output in enumerate(batch.outputs):
        if not output._version:
            instead = "" if returned is None else f", but returned {_kind(returned)}"
            own = f"batch.outputs[{place}]"
            raise ValueError(
                f"{operation.name}.forward has not written output {place}{instead}: write into "
                f"`batch.outputs`, by `{own}.copy_(result)` or `out={own}`. If something other than PyTorch "
                "writes there, call `torch.autograd.graph.increment_version` of it afterwards"
            )
        increment_version(given[place])  # of a cell, which may have given it


def run_backward(
    operation: Operation, batch: OperationBatch, gradients: Sequence[Tensor]
) -> OperationGradients:
    """Run `Operation.backward`. Raises TypeError and ValueError for results that do not fit the operation."""
    found: Any = operation.backward(batch, gradients)
    if type(found) is not OperationGradients or isinstance(found.inputs, Tensor):
        given = "inputs that are one tensor" if type(found) is OperationGradients else _kind(found)
        raise TypeError(
            f"{operation.name}.backward returned {given}: it must return "
            f"`OperationGradients((gradient, ...))`, with a gradient for each input; {HOW_TO}"
        )
    inputs = batch.inputs
    if len(found.inputs) != len(inputs):
        raise ValueError(
            f"{operation.name}.backward returned {len(found.inputs)} gradients for {len(inputs)} inputs: "
            "give one for each, None for zero"
        )
    for place, (gradient, own) in enumerate(zip(found.inputs, inputs, strict=True)):
        if gradient is None:
            continue
        if not isinstance(gradient, Tensor) or gradient.shape != own.shape or gradient.dtype != own.dtype:
            raise ValueError(
                f"{operation.name}.backward returned {_kind(gradient)} as the gradient of input {place}, "
                f"which is {_kind(own)}"
            )
    if len(found.kept) != operation.kept:
        raise ValueError(
            f"{operation.name}.backward returned {len(found.kept)} kept tensors, but its `kept` is "
            f"{operation.kept}"
        )
    return found


def trained_parameters(operations: Iterable[Operation]) -> dict[Tensor, Operation]:
    """Return the parameters that need gradients, each with the first operation that reads it.

    Raises ValueError if an operation reads a tensor that needs a gradient, but is not among its parameters.
    """
    found: dict[Tensor, Operation] = {}
    for operation in operations:
        for part in operation.parts():
            _check_declared(part)
        for parameter in operation.parameters:
            if parameter.requires_grad:
                found.setdefault(parameter, operation)
    return found


def _check_declared(operation: Operation) -> None:
    declared = {id(parameter) for parameter in operation.parameters}
    for name, own in (*vars(operation).items(), *_closed_over(type(operation).forward)):
        several = own.values() if isinstance(own, dict) else own
        for each in several if isinstance(own, (dict, list, tuple)) else (own,):
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
    own = {step.argval: None for step in dis.get_instructions(code) if step.opname == "LOAD_GLOBAL"}
    nested = [_global_names(inner) for inner in code.co_consts if isinstance(inner, CodeType)]
    return tuple(own | dict.fromkeys(chain.from_iterable(nested)))


def _kind(found: object) -> str:
    """Describe what was returned."""
    if isinstance(found, Tensor):
        return f"a tensor of shape {list(found.shape)} and {found.dtype}"
    return f"a {type(found).__name__}"
