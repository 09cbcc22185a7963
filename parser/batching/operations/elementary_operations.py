"""Elementary operations: elementwise, reductions, products, and modules as single operations."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from parser.batching.functional import times_transposed, write_product
from parser.batching.lstm import write_tanh
from parser.batching.operations.operation import (
    Operation,
    OperationBatch,
    OperationGradients,
    ParameterGradients,
    concatenate_kept,
    leaf,
)

RowGradients = Sequence[Tensor]
SEQUENCE_LAYERS = (
    nn.RNNBase,
    nn.MultiheadAttention,
    nn.Transformer,
    nn.TransformerEncoder,
    nn.TransformerDecoder,
    nn.TransformerEncoderLayer,
    nn.TransformerDecoderLayer,
)
"""Layers that treat a matrix as a sequence, and read its rows together."""


class Elementwise(Operation):
    """An operation without parameters, whose inputs and output have the same width."""

    def __init__(self, width: int):
        self.outputs = (width,)

    def signature(self) -> Hashable:
        return type(self), self.outputs


class Add(Elementwise):
    def forward(self, batch: OperationBatch) -> None:
        torch.add(batch.inputs[0], batch.inputs[1], out=batch.outputs[0])

    def backward(self, batch: OperationBatch, gradients: RowGradients) -> OperationGradients:
        return OperationGradients((gradients[0], gradients[0]))


class Subtract(Elementwise):
    def forward(self, batch: OperationBatch) -> None:
        torch.sub(batch.inputs[0], batch.inputs[1], out=batch.outputs[0])

    def backward(self, batch: OperationBatch, gradients: RowGradients) -> OperationGradients:
        return OperationGradients((gradients[0], -gradients[0]))


class Multiply(Elementwise):
    def forward(self, batch: OperationBatch) -> None:
        torch.mul(batch.inputs[0], batch.inputs[1], out=batch.outputs[0])

    def backward(self, batch: OperationBatch, gradients: RowGradients) -> OperationGradients:
        return OperationGradients((gradients[0] * batch.inputs[1], gradients[0] * batch.inputs[0]))


class Scale(Elementwise):
    """factor * x + shift, where factor and shift are numbers."""

    def __init__(self, width: int, factor: float, shift: float):
        super().__init__(width)
        self.factor, self.shift = factor, shift

    def signature(self) -> Hashable:
        return type(self), self.outputs, self.factor, self.shift

    def forward(self, batch: OperationBatch) -> None:
        torch.mul(batch.inputs[0], self.factor, out=batch.outputs[0])
        if self.shift:
            batch.outputs[0].add_(self.shift)

    def backward(self, batch: OperationBatch, gradients: RowGradients) -> OperationGradients:
        return OperationGradients((self.factor * gradients[0],))


class Tanh(Elementwise):
    def forward(self, batch: OperationBatch) -> None:
        write_tanh(batch.inputs[0], batch.outputs[0])

    def backward(self, batch: OperationBatch, gradients: RowGradients) -> OperationGradients:
        return OperationGradients((torch.ops.aten.tanh_backward(gradients[0], batch.outputs[0]),))


class Sigmoid(Elementwise):
    def forward(self, batch: OperationBatch) -> None:
        torch.sigmoid(batch.inputs[0], out=batch.outputs[0])

    def backward(self, batch: OperationBatch, gradients: RowGradients) -> OperationGradients:
        return OperationGradients((torch.ops.aten.sigmoid_backward(gradients[0], batch.outputs[0]),))


class Relu(Elementwise):
    def forward(self, batch: OperationBatch) -> None:
        torch.clamp(batch.inputs[0], min=0, out=batch.outputs[0])

    def backward(self, batch: OperationBatch, gradients: RowGradients) -> OperationGradients:
        return OperationGradients((gradients[0] * (batch.outputs[0] > 0),))


class LogSoftmax(Elementwise):
    def forward(self, batch: OperationBatch) -> None:
        torch.log_softmax(batch.inputs[0], 1, out=batch.outputs[0])

    def backward(self, batch: OperationBatch, gradients: RowGradients) -> OperationGradients:
        probability = batch.outputs[0].exp()
        return OperationGradients((gradients[0] - probability * gradients[0].sum(1, keepdim=True),))


class Dropout(Elementwise):
    """Inverted dropout; the identity unless training."""

    def __init__(self, width: int, probability: float, training: bool):
        super().__init__(width)
        if not 0 <= probability < 1:
            raise ValueError(f"dropout probability {probability} must be from 0 to below 1")
        self.probability, self.training = probability, training

    def signature(self) -> Hashable:
        return type(self), self.outputs, self.probability, self.training

    def forward(self, batch: OperationBatch) -> None:
        if not self.training:
            batch.outputs[0].copy_(batch.inputs[0])
            return
        kept = 1 - self.probability
        batch.saved = torch.empty_like(batch.outputs[0]).bernoulli_(kept).div_(kept)
        torch.mul(batch.inputs[0], batch.saved, out=batch.outputs[0])

    def backward(self, batch: OperationBatch, gradients: RowGradients) -> OperationGradients:
        return OperationGradients((gradients[0] * batch.saved if self.training else gradients[0],))


class Sum(Elementwise):
    """The sum of values of equal width."""

    def __init__(self, width: int, values: int):
        super().__init__(width)
        self.values = values

    def signature(self) -> Hashable:
        return type(self), self.outputs, self.values

    def packs(self, arguments: int) -> tuple[tuple[int, ...], ...]:
        return (tuple(range(arguments)),)

    def forward(self, batch: OperationBatch) -> None:
        torch.sum(batch.inputs[0].view(-1, self.values, *self.outputs), 1, out=batch.outputs[0])

    def backward(self, batch: OperationBatch, gradients: RowGradients) -> OperationGradients:
        return OperationGradients((gradients[0].repeat(1, self.values),))


class Concatenate(Operation):
    """Concatenation of values of any widths."""

    def __init__(self, widths: tuple[int, ...]):
        self.widths = widths
        self.outputs = (sum(widths),)

    def signature(self) -> Hashable:
        return type(self), self.widths

    def forward(self, batch: OperationBatch) -> None:
        torch.cat(list(batch.inputs), 1, out=batch.outputs[0])

    def backward(self, batch: OperationBatch, gradients: RowGradients) -> OperationGradients:
        return OperationGradients(gradients[0].split(list(self.widths), 1))


class Slice(Operation):
    """Elements `start` to `stop` (exclusive) of a value."""

    def __init__(self, width: int, start: int, stop: int):
        self.width, self.columns = width, slice(start, stop)
        self.outputs = (stop - start,)

    def signature(self) -> Hashable:
        return type(self), self.width, self.columns.start, self.columns.stop

    def forward(self, batch: OperationBatch) -> None:
        batch.outputs[0].copy_(batch.inputs[0])

    def backward(self, batch: OperationBatch, gradients: RowGradients) -> OperationGradients:
        return OperationGradients((gradients[0],))


class Pick(Operation):
    """One element of a value, selected by the index."""

    outputs = (1,)
    has_index = True

    def __init__(self, width: int):
        self.width = self.index_bound = width

    def signature(self) -> Hashable:
        return type(self), self.width

    def forward(self, batch: OperationBatch) -> None:
        torch.gather(batch.inputs[0], 1, _column(batch), out=batch.outputs[0])

    def backward(self, batch: OperationBatch, gradients: RowGradients) -> OperationGradients:
        return OperationGradients(
            (torch.zeros_like(batch.inputs[0]).scatter_(1, _column(batch), gradients[0]),)
        )


class CrossEntropy(Pick):
    """Negative log-likelihood, under a softmax over the value, of the element that the index selects."""

    def forward(self, batch: OperationBatch) -> None:
        batch.saved = torch.log_softmax(batch.inputs[0], 1)
        torch.gather(batch.saved, 1, _column(batch), out=batch.outputs[0]).neg_()

    def backward(self, batch: OperationBatch, gradients: RowGradients) -> OperationGradients:
        gradient = batch.saved.exp()
        gradient.scatter_add_(1, _column(batch), -torch.ones_like(batch.outputs[0]))
        return OperationGradients((gradient.mul_(gradients[0]),))


def _column(batch: OperationBatch) -> Tensor:
    """[rows, 1] The index as a column."""
    assert batch.index is not None
    return batch.index[:, None]


class Lookup(Operation):
    """A row of an embedding table."""

    has_index = True
    kept = 2

    def __init__(self, table: Tensor, sparse: bool = False):
        """table: [entries, width], trainable or not; sparse: use a sparse gradient."""
        self.table, self.only_gathers = leaf(table, "rows", "width"), sparse
        self.parameters = (table,)
        self.index_bound = len(table)
        self.outputs = (table.shape[1],)

    def signature(self) -> Hashable:
        return type(self), id(self.table), self.only_gathers

    def forward(self, batch: OperationBatch) -> None:
        assert batch.index is not None
        torch.index_select(self.table, 0, batch.index, out=batch.outputs[0])

    def backward(self, batch: OperationBatch, gradients: Sequence[Tensor]) -> OperationGradients:
        assert batch.index is not None
        return OperationGradients((), (gradients[0], batch.index))

    def accumulate(self, batches: Sequence[tuple[Tensor, ...]], gradients: ParameterGradients) -> None:
        gradient, rows = concatenate_kept(batches)
        gradients.add_rows(self.table, rows, gradient, self.only_gathers)


class Linear(Operation):
    """weight @ x + bias, where x can be the concatenation of several values of equal width."""

    is_product = True
    kept = 2

    def __init__(self, weight: Tensor, bias: Tensor | None = None):
        """weight: [out, in]; bias: [out]."""
        self.weight, self.bias = leaf(weight, "out", "in"), None if bias is None else leaf(bias, "out")
        if bias is not None and len(bias) != len(weight):
            raise ValueError(f"a bias of {len(bias)} elements, but the weight gives {len(weight)}")
        self.parameters = (weight,) if bias is None else (weight, bias)
        self.outputs = (weight.shape[0],)

    def signature(self) -> Hashable:
        return type(self), id(self.weight), id(self.bias)

    def packs(self, arguments: int) -> tuple[tuple[int, ...], ...]:
        return (tuple(range(arguments)),)

    def forward(self, batch: OperationBatch) -> None:
        write_product(batch.outputs[0], batch.inputs[0], self.weight, self.bias)

    def backward(self, batch: OperationBatch, gradients: Sequence[Tensor]) -> OperationGradients:
        inputs = times_transposed(gradients[0], self.weight.T)
        return OperationGradients((inputs,), (gradients[0], batch.inputs[0]))

    def accumulate(self, batches: Sequence[tuple[Tensor, ...]], gradients: ParameterGradients) -> None:
        gradient, inputs = concatenate_kept(batches)
        gradients.add_product(self.weight, gradient, inputs)
        if self.bias is not None:
            gradients.add_sum(self.bias, gradient)


class MatrixProduct(Operation):
    """left @ right, where both are values that hold matrices row by row."""

    is_product = True

    def __init__(self, rows: int, inner: int, columns: int):
        self._left, self._right, self._result = (-1, rows, inner), (-1, inner, columns), (-1, rows, columns)
        self.outputs = (rows * columns,)

    def signature(self) -> Hashable:
        return type(self), self._left, self._right

    def forward(self, batch: OperationBatch) -> None:
        torch.bmm(*self._factors(batch), out=batch.outputs[0].view(self._result))

    def backward(self, batch: OperationBatch, gradients: RowGradients) -> OperationGradients:
        (left, right), gradient = self._factors(batch), gradients[0].reshape(self._result)
        d_left, d_right = gradient @ right.mT, left.mT @ gradient
        return OperationGradients((d_left.flatten(1), d_right.flatten(1)))

    def _factors(self, batch: OperationBatch) -> tuple[Tensor, Tensor]:
        """Return the factors, [batch, rows, inner] and [batch, inner, columns]."""
        return batch.inputs[0].reshape(self._left), batch.inputs[1].reshape(self._right)


class Module(Operation):
    """Any module from rows to rows as a single operation, differentiated by autograd.

    The module must treat rows independently, because the rows of a batch belong to different examples. It
    runs in the mode (training or evaluation) that it has when the operation is created.

    >>> graph, softmax = Graph("agenda", "cpu"), Module(nn.Softmax(1), (2,))
    >>> values = [graph.operate(softmax, (value,))[0] for value in graph.add_values(torch.zeros(3, 2))]
    >>> len(graph.schedule())
    1
    """

    is_product = True
    keeps_rows = False

    def __init__(self, module: nn.Module, outputs: Sequence[int]):
        """outputs: the width of each tensor that the module returns.

        Raises ValueError for modules that are known to mix rows, and TypeError for arguments of other types.
        """
        if not isinstance(module, nn.Module):
            raise TypeError(f"a module must be a torch.nn.Module, not {type(module).__name__}")
        if isinstance(outputs, int):
            raise TypeError(
                f"the widths of the tensors that a module returns are a tuple: ({outputs},) of one"
            )
        _check_rows(module)
        self.module, self.outputs = module, tuple(outputs)
        self.parameters = tuple(module.parameters())
        self.kept = len(self.parameters)
        self._training = tuple(part.training for part in module.modules())
        self._reads_only_parameters = False  # unknown before the first backward pass

    @property
    def name(self) -> str:
        return f"{type(self).__name__}({type(self.module).__name__})"

    def signature(self) -> Hashable:
        return type(self), id(self.module), self.outputs, self._training

    def forward(self, batch: OperationBatch) -> None:
        inputs = [value.detach().requires_grad_() for value in batch.inputs]
        with torch.enable_grad(), self._mode():
            # Clones, because autograd would report that other batches write into the same block.
            results = self.module(*(value.clone() for value in inputs))
        results = results if isinstance(results, tuple) else (results,)
        self._check(results, batch.outputs)
        for result, output in zip(results, batch.outputs, strict=True):
            output.copy_(result.detach())
        batch.saved = inputs, results

    def _check(self, results: tuple[Any, ...], outputs: Sequence[Tensor]) -> None:
        """Raises ValueError if the results are not tensors like the outputs."""
        shapes = [
            list(result.shape) if isinstance(result, Tensor) else type(result).__name__ for result in results
        ]
        if shapes != [list(output.shape) for output in outputs]:
            raise ValueError(
                f"{self.name} returned {shapes} for {len(outputs[0])} rows, but declared widths "
                f"{self.outputs}"
            )
        for result, output in zip(results, outputs, strict=True):
            if torch.promote_types(result.dtype, output.dtype) != output.dtype:
                raise ValueError(
                    f"{self.name} returned {result.dtype}, but the graph is of "
                    f"{output.dtype}: create it with dtype={result.dtype}, or convert the result"
                )

    def backward(self, batch: OperationBatch, gradients: Sequence[Tensor]) -> OperationGradients:
        inputs, results = batch.saved
        needing = [number for number, result in enumerate(results) if result.requires_grad]
        if not needing:
            return OperationGradients([None] * len(inputs), tuple(map(torch.zeros_like, self.parameters)))
        if not self._reads_only_parameters:
            self._check_leaves([results[number] for number in needing], inputs)
            self._reads_only_parameters = True
        of_inputs_and_parameters = torch.autograd.grad(
            [results[number] for number in needing],
            [*inputs, *(parameter for parameter in self.parameters if parameter.requires_grad)],
            [gradients[number] for number in needing],
            retain_graph=True,
            materialize_grads=True,
        )
        trained = iter(of_inputs_and_parameters[len(inputs) :])
        return OperationGradients(
            of_inputs_and_parameters[: len(inputs)],
            tuple(
                next(trained) if parameter.requires_grad else torch.zeros_like(parameter)
                for parameter in self.parameters
            ),
        )

    def _check_leaves(self, results: Sequence[Tensor], inputs: Sequence[Tensor]) -> None:
        """Raises ValueError if the results depend on a tensor that would get no gradient."""
        known = {id(leaf) for leaf in (*inputs, *self.parameters)}
        pending: list[Any] = [result.grad_fn for result in results]
        seen = set()
        while pending:
            node = pending.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            read = getattr(node, "variable", None)  # of a leaf
            if read is not None and id(read) not in known:
                raise ValueError(
                    f"{self.name} reads a tensor of shape {list(read.shape)} that needs a gradient, but is "
                    "none of the module's parameters: make it an attribute of the module, as nn.Parameter, "
                    "in a layer, or in a ModuleList instead of a list"
                )
            pending += [following for following, _ in node.next_functions]

    def accumulate(self, batches: Sequence[tuple[Tensor, ...]], gradients: ParameterGradients) -> None:
        for batch in batches:
            for parameter, gradient in zip(self.parameters, batch, strict=True):
                # Sums are added up in place, and a tensor that autograd returns may share its memory with
                # the gradient of an input or of another parameter, as in a + b.
                is_first = gradients.of(parameter) is None
                gradients.add(parameter, gradient.clone() if is_first else gradient)

    @contextmanager
    def _mode(self) -> Iterator[None]:
        parts = list(self.module.modules())
        before = [part.training for part in parts]
        for part, training in zip(parts, self._training, strict=True):
            part.training = training
        try:
            yield
        finally:
            for part, training in zip(parts, before, strict=True):
                part.training = training


def _check_rows(module: nn.Module) -> None:
    """Raises ValueError for layers of PyTorch that use other rows to compute a row."""
    if isinstance(module, SEQUENCE_LAYERS):
        raise ValueError(
            f"{type(module).__name__} reads the rows of a matrix as one sequence, but those of a batch are "
            "of different examples: record its cell (LSTMCell, GRUCell), or attention by `matrix_product`"
        )
    for name, part in module.named_modules():
        if isinstance(part, nn.modules.batchnorm._BatchNorm) and (part.training or part.running_mean is None):
            raise ValueError(
                f"{type(part).__name__}{name and f' ({name})'} in {type(module).__name__} mixes the rows "
                "of a batch, which are of different examples: use LayerNorm, or its running statistics, by "
                "`.eval()` before `Module` is made"
            )
