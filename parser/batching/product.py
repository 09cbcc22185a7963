"""Matrix products at the machine's speed.

On a CPU, torch hands float32 products to MKL, which uses but half of the vector units that AMD's processors
have since Zen 5; oneDNN, which torch carries too, is about twice as fast there, and elsewhere no faster
(`scripts/measure_products.py` prints both). Torch has no public name for oneDNN's product, so its own
compiler's is used where it pays and exists, and torch's product elsewhere. oneDNN builds a kernel for each
new shape, at the price of many products, so the number of rows, which differs from batch to batch, is rounded
up.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from parser.batching.processor import AMD, Processor, processor

ZEN_5 = 26
"""AMD's number of that family."""
FEWEST_ROWS = 24
"""With fewer, finding the kernel and rounding up cost more than the product; torch's own is faster then."""
ROWS_FOR_A_SUM = 256
"""By arithmetic: with fewer, what oneDNN saves is less than adding another matrix to a large one takes."""
SHAPES_PER_OCTAVE = 8
"""Row counts from one power of two to the next that have a kernel of their own; 1/16 more rows on average."""


def times_transposed(left: Tensor, right: Tensor, bias: Tensor | None = None) -> Tensor:
    """[rows, n] left @ right.T + bias, without gradients.

    left: [rows, k], of any number of rows; right: [n, k], whose shape recurs; bias: [n].
    """
    return by_onednn(left, right, bias) if _suits_onednn(left) else F.linear(left, right, bias)


def by_onednn(left: Tensor, right: Tensor, bias: Tensor | None = None) -> Tensor:
    """As `times_transposed`, for float32 on a CPU, whether it pays or not."""
    return _onednn(_round_up(left), right, bias)[: len(left)]


def write_product(outputs: Tensor, left: Tensor, right: Tensor, bias: Tensor | None = None) -> None:
    """As `times_transposed`, into a matrix [rows, n] that is there; there may be gaps between its rows."""
    if _suits_onednn(left):
        outputs.copy_(by_onednn(left, right, bias))
    elif bias is None:
        torch.mm(left, right.T, out=outputs)
    else:
        torch.addmm(bias, left, right.T, out=outputs)


def add_product(outputs: Tensor, left: Tensor, right: Tensor) -> None:
    """As `write_product`, but added to what is there."""
    if _suits_onednn(left):
        outputs += by_onednn(left, right)
    else:
        outputs.addmm_(left, right.T)


def transposed_times(left: Tensor, right: Tensor) -> Tensor:
    """[m, n] left.T @ right, without gradients: a sum over rows. left: [rows, m], right: [rows, n]."""
    if not _suits_onednn(left):
        return left.T @ right
    return _sum_over_rows(_round_up(left), _round_up(right))


def write_transposed_product(outputs: Tensor, left: Tensor, right: Tensor) -> None:
    """As `transposed_times`, into a matrix [m, n] that is there."""
    if _suits_onednn(left):
        outputs.copy_(transposed_times(left, right))
    else:
        torch.mm(left.T, right, out=outputs)


def add_transposed_product(outputs: Tensor, left: Tensor, right: Tensor) -> None:
    """As `write_transposed_product`, but added to what is there."""
    if _suits_onednn(left) and len(left) >= ROWS_FOR_A_SUM:
        outputs += transposed_times(left, right)
    else:
        outputs.addmm_(left.T, right)


def linear(inputs: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """[rows, out] inputs @ weight.T + bias; inputs: [rows, in], weight: [out, in], bias: [out]."""
    if _suits_onednn(inputs):
        return _LinearFunction.apply(inputs, weight, bias)
    return F.linear(inputs, weight, bias)


class _LinearFunction(Function):
    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        rounded = _round_up(inputs)
        ctx.save_for_backward(rounded, weight)
        return _onednn(rounded, weight, bias)[: len(inputs)]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        rounded, weight = ctx.saved_tensors
        needs_input, needs_weight, needs_bias = ctx.needs_input_grad
        rounded_gradient = _round_up(gradient)
        return (
            _onednn(rounded_gradient, weight.T)[: len(gradient)] if needs_input else None,
            _sum_over_rows(rounded_gradient, rounded) if needs_weight else None,
            gradient.sum(0) if needs_bias else None,
        )


def _suits_onednn(tensor: Tensor) -> bool:
    return (
        tensor.device.type == "cpu"
        and tensor.dtype == torch.float32
        and len(tensor) >= FEWEST_ROWS
        and tensor.shape[1] > 0
        and mkl_leaves_units_idle(processor())
        and has_onednn()
    )


def has_onednn() -> bool:
    """Whether `by_onednn` can be called."""
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def mkl_leaves_units_idle(processor: Processor) -> bool:
    """Whether it multiplies 512 bits at a time where MKL uses 256."""
    return processor.vendor == AMD and processor.family >= ZEN_5 and "avx512f" in processor.flags


def _onednn(left: Tensor, right: Tensor, bias: Tensor | None = None) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(_dense(left), _dense(right), bias, "none", [], "")


def _sum_over_rows(left: Tensor, right: Tensor) -> Tensor:
    """[m, n] left.T @ right, with the shorter side first, which oneDNN does up to a third faster."""
    if left.shape[1] > right.shape[1]:
        return _onednn(right.T, left.T).T
    return _onednn(left.T, right.T)


def _dense(matrix: Tensor) -> Tensor:
    """The matrix without gaps between its rows or its columns, for which oneDNN has no fast product."""
    return matrix if matrix.is_contiguous() or matrix.T.is_contiguous() else matrix.contiguous()


def _round_up(matrix: Tensor) -> Tensor:
    """The matrix with rows of zeros appended, up to one of `SHAPES_PER_OCTAVE` row counts."""
    rows = len(matrix)
    unit = max(8, 1 << max(0, rows.bit_length() - SHAPES_PER_OCTAVE.bit_length()))
    missing = -rows % unit
    if not missing:
        return _dense(matrix)
    rounded = matrix.new_empty(rows + missing, matrix.shape[1])
    rounded[:rows] = matrix
    rounded[rows:] = 0
    return rounded
