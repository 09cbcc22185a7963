"""Replacements for functions of PyTorch that are slow on a CPU: matrix products, linear layers and dropout.

The precision of products is PyTorch's own setting for the whole process
(`torch.set_float32_matmul_precision`): full precision, fewer bits of the factors, or bfloat16. With the
setting "medium", PyTorch itself still computes most products in a higher precision; here the factors of large
products are converted to bfloat16. Weights and elementwise operations stay float32.

On a CPU, torch computes float32 products by MKL, which uses only half of the vector units of AMD processors
since Zen 5. oneDNN, which torch also ships, is about twice as fast there, and no faster on other processors.
torch has no public function for oneDNN's product. If it is available and pays off, the operator that torch's
compiler uses is called, otherwise torch's own product. oneDNN generates a kernel for each new shape, which
costs as much as many products, so the number of rows is rounded up.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from parser.batching import Precision
from parser.system.machine import AMD, Processor, processor

_NAMES: dict[Precision, str] = {"float32": "highest", "tf32": "high", "bfloat16": "medium"}
"""PyTorch's names of the precisions."""
WITH_FLOAT32_SUMS = "2.8"
"""The first version of PyTorch whose products of bfloat16 factors can be float32."""
AMPERE = (8, 0)
"""The compute capability of the first GPUs with tf32 and bfloat16."""
CPU_EXTENSIONS = "amx_bf16", "avx512_bf16"
"""CPU extensions that multiply bfloat16. Without them, bfloat16 is slower than float32."""
ZEN_5 = 26
"""The CPU family of Zen 5."""
MIN_ROWS = 24
"""With fewer rows, finding the kernel and rounding up cost more than oneDNN saves."""
MIN_ROWS_TO_ACCUMULATE = 256
"""With fewer rows, oneDNN saves less than the extra addition to the large result costs."""
MIN_MULTIPLICATIONS_IN_BFLOAT16 = 1 << 23
"""With fewer multiplications on a CPU, conversions cost more than bfloat16 saves."""
SHAPES_PER_OCTAVE = 8
"""The number of row counts per power of two that get their own kernel; padding is 1/16 of rows on average."""


def set_precision(precision: Precision, device: torch.device) -> None:
    """Set the precision in this process. Raises ValueError if the device does not support it."""
    refuse_unsupported(precision, device)
    torch.set_float32_matmul_precision(_NAMES[precision])
    torch.backends.cudnn.allow_tf32 = precision != "float32"


@contextmanager
def computing_in(precision: Precision, device: torch.device) -> Iterator[None]:
    """Like `set_precision`, until the block exits."""
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    set_precision(precision, device)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before[0])
        torch.backends.cudnn.allow_tf32 = before[1]


def present_precision() -> Precision:
    """Return the precision of this process."""
    name = torch.get_float32_matmul_precision()
    return next(precision for precision, its_name in _NAMES.items() if its_name == name)


def refuse_unsupported(precision: Precision, device: torch.device) -> None:
    """Check the precision. Raises ValueError if the device does not support it."""
    if reason := why_unsupported(precision, device, processor()):
        raise ValueError(f"precision {precision}: {reason}")


def why_unsupported(precision: Precision, device: torch.device, processor: Processor) -> str | None:
    """Return why the device does not support the precision; None if it does."""
    if precision == "float32":
        return None
    if device.type == "cuda":
        if torch.cuda.get_device_capability(device) < AMPERE:
            return "needs an NVIDIA GPU of the Ampere generation or later"
        if precision == "bfloat16" and torch.__version__ < WITH_FLOAT32_SUMS:
            return f"needs PyTorch {WITH_FLOAT32_SUMS} or later on a GPU"
        return None
    if precision == "tf32":
        return "only GPUs have it; write float32 or bfloat16"
    if processor.flags.isdisjoint(CPU_EXTENSIONS):
        return f"this CPU has neither of {' and '.join(CPU_EXTENSIONS)}; write float32"
    if not _autocasts_lstms():
        return (
            "oneDNN does not compute LSTMs in it on this CPU; write float32, or unset ONEDNN_MAX_CPU_ISA "
            "if that is set"
        )
    return None


def _autocasts_lstms() -> bool:
    """Whether PyTorch can compute an LSTM in bfloat16 in the way that `outputs_of` requests.

    This is tried out, because the instructions that oneDNN uses can be limited from outside, and autocast
    passes LSTMs in bfloat16 to oneDNN without checking whether oneDNN supports them.
    """
    states = torch.zeros(1, 1, 1)
    weights = [torch.zeros(4, 1), torch.zeros(4, 1), torch.zeros(4), torch.zeros(4)]
    with torch.autocast("cpu", torch.bfloat16):
        try:
            torch.lstm(states, (states, states), weights, True, 1, 0.0, True, False, False)
        except RuntimeError:
            return False
    return True


def times_transposed(left: Tensor, right: Tensor, bias: Tensor | None = None) -> Tensor:
    """[rows, n] left @ right.T + bias, without gradients.

    left: [rows, k], for any number of rows; right: [n, k], in few different shapes; bias: [n].
    """
    if _suits_bfloat16(left, len(right)):
        return _product(_round_up(left, torch.bfloat16), right.to(torch.bfloat16), bias)[: len(left)]
    return by_onednn(left, right, bias) if _suits_onednn(left) else F.linear(left, right, bias)


def by_onednn(left: Tensor, right: Tensor, bias: Tensor | None = None) -> Tensor:
    """Like `times_transposed`, but always by oneDNN; for float32 on a CPU."""
    return _onednn(_round_up(left), right, bias)[: len(left)]


def write_product(outputs: Tensor, left: Tensor, right: Tensor, bias: Tensor | None = None) -> None:
    """Like `times_transposed`, but write to `outputs` [rows, n], which can be a view with strided rows."""
    if _suits_bfloat16(left, len(right)):
        outputs.copy_(_in_bfloat16(left, right))
        if bias is not None:
            outputs += bias
    elif _suits_onednn(left):
        outputs.copy_(by_onednn(left, right, bias))
    elif bias is None:
        torch.mm(left, right.T, out=outputs)
    else:
        torch.addmm(bias, left, right.T, out=outputs)


def add_product(outputs: Tensor, left: Tensor, right: Tensor) -> None:
    """Like `write_product`, but add to `outputs`."""
    if _suits_bfloat16(left, len(right)):
        outputs += _in_bfloat16(left, right)
    elif _suits_onednn(left):
        outputs += by_onednn(left, right)
    else:
        outputs.addmm_(left, right.T)


def transposed_times(left: Tensor, right: Tensor) -> Tensor:
    """[m, n] left.T @ right, without gradients: a sum over rows. left: [rows, m], right: [rows, n]."""
    if _suits_bfloat16(left, right.shape[1]):
        return _sum_over_rows(_round_up(left, torch.bfloat16), _round_up(right, torch.bfloat16))
    if not _suits_onednn(left):
        return left.T @ right
    return _sum_over_rows(_round_up(left), _round_up(right))


def write_transposed_product(outputs: Tensor, left: Tensor, right: Tensor) -> None:
    """Like `transposed_times`, but write to `outputs` [m, n]."""
    if _suits_bfloat16(left, right.shape[1]) or _suits_onednn(left):
        outputs.copy_(transposed_times(left, right))
    else:
        torch.mm(left.T, right, out=outputs)


def add_transposed_product(outputs: Tensor, left: Tensor, right: Tensor) -> None:
    """Like `write_transposed_product`, but add to `outputs`."""
    if _suits_bfloat16(left, right.shape[1]) or (_suits_onednn(left) and len(left) >= MIN_ROWS_TO_ACCUMULATE):
        outputs += transposed_times(left, right)
    else:
        outputs.addmm_(left.T, right)


def linear(inputs: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """[rows, out] inputs @ weight.T + bias; inputs: [rows, in], weight: [out, in], bias: [out]."""
    if _suits_bfloat16(inputs, len(weight)):
        return _LinearFunction.apply(inputs, weight, bias, torch.bfloat16)
    if _suits_onednn(inputs):
        return _LinearFunction.apply(inputs, weight, bias, torch.float32)
    return F.linear(inputs, weight, bias)


class _LinearFunction(Function):
    """By oneDNN in float32, or with factors converted to bfloat16."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor | None, dtype: torch.dtype) -> Tensor:
        rounded, converted = _round_up(inputs, dtype), weight.to(dtype)
        ctx.save_for_backward(rounded, converted)
        return _product(rounded, converted, bias)[: len(inputs)]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        rounded, weight = ctx.saved_tensors
        needs_input, needs_weight, needs_bias, _ = ctx.needs_input_grad
        rounded_gradient = _round_up(gradient, rounded.dtype)
        return (
            _product(rounded_gradient, weight.T)[: len(gradient)] if needs_input else None,
            _sum_over_rows(rounded_gradient, rounded) if needs_weight else None,
            gradient.sum(0) if needs_bias else None,
            None,
        )


def _product(left: Tensor, right: Tensor, bias: Tensor | None = None) -> Tensor:
    """[rows, n] left @ right.T + bias in float32. The factors are float32 or bfloat16."""
    if left.dtype == torch.float32:
        return _onednn(left, right, bias)
    product = _product_of_bfloat16(left, right)
    return product.float() if bias is None else product + bias


def _sum_over_rows(left: Tensor, right: Tensor) -> Tensor:
    """[m, n] left.T @ right in float32. With oneDNN the shorter side comes first: up to a third faster."""
    if left.dtype == torch.float32 and left.shape[1] > right.shape[1]:
        return _product(right.T, left.T).T
    return _product(left.T, right.T)


def _suits_bfloat16(left: Tensor, columns: int) -> bool:
    return (
        left.dtype == torch.float32
        and (left.is_cuda or left.numel() * columns >= MIN_MULTIPLICATIONS_IN_BFLOAT16)
        and present_precision() == "bfloat16"
    )


def _in_bfloat16(left: Tensor, right: Tensor) -> Tensor:
    """[rows, n] left @ right.T, see `_product_of_bfloat16`."""
    return _product_of_bfloat16(_round_up(left, torch.bfloat16), right.to(torch.bfloat16))[: len(left)]


def _product_of_bfloat16(left: Tensor, right: Tensor) -> Tensor:
    """[rows, n] left @ right.T of bfloat16 factors: float32 on CUDA, rounded to bfloat16 on a CPU."""
    if left.device.type == "cuda":
        return torch.mm(left, right.T, out_dtype=torch.float32)
    return torch.mm(left, right.T)


def _suits_onednn(tensor: Tensor) -> bool:
    return (
        tensor.device.type == "cpu"
        and tensor.dtype == torch.float32
        and len(tensor) >= MIN_ROWS
        and tensor.shape[1] > 0
        and mkl_leaves_units_idle(processor())
        and has_onednn()
    )


def has_onednn() -> bool:
    """Whether `by_onednn` can be called."""
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def mkl_leaves_units_idle(processor: Processor) -> bool:
    """Whether the processor has 512-bit vector units of which MKL uses only 256 bits."""
    return processor.vendor == AMD and processor.family >= ZEN_5 and "avx512f" in processor.flags


def _onednn(left: Tensor, right: Tensor, bias: Tensor | None = None) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(_dense(left), _dense(right), bias, "none", [], "")


def _dense(matrix: Tensor) -> Tensor:
    """Return the matrix in a contiguous layout; oneDNN has no fast product for other layouts."""
    return matrix if matrix.is_contiguous() or matrix.T.is_contiguous() else matrix.contiguous()


def _round_up(matrix: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """On a CPU, append rows of zeros up to the next number of rows that gets its own kernel."""
    rows = len(matrix)
    unit = max(8, 1 << max(0, rows.bit_length() - SHAPES_PER_OCTAVE.bit_length()))
    missing = 0 if matrix.is_cuda else -rows % unit
    if not missing:
        return _dense(matrix).to(dtype)
    rounded = matrix.new_empty(rows + missing, matrix.shape[1], dtype=dtype)
    rounded[:rows] = matrix
    rounded[rows:] = 0
    return rounded


RANDOM_LEVELS = 1 << 16
"""The number of values of a 16-bit random number, with which a probability is compared."""


def dropout(tensor: Tensor, probability: float, training: bool) -> Tensor:
    """Like `torch.nn.functional.dropout`, but on a CPU one 64-bit random number serves four elements.

    PyTorch draws one number for each element, which took a seventh of a training step; this function takes a
    fifth of that time. The probability is rounded to a multiple of 1 / 65,536.
    """
    if not training or probability in (0, 1) or tensor.device.type != "cpu":
        return F.dropout(tensor, probability, training)
    numbers = torch.empty(-(-tensor.numel() // 4), dtype=torch.int64).random_(-(1 << 63), None)
    levels = numbers.view(torch.int16)[: tensor.numel()].view(tensor.shape)  # each from -RANDOM_LEVELS / 2
    kept = levels >= round(probability * RANDOM_LEVELS) - RANDOM_LEVELS // 2
    return tensor * kept.to(tensor.dtype).mul_(1 / (1 - probability))
