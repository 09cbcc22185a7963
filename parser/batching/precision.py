"""The precision of float32 matrix products: in full, with fewer bits of the factors, or in bfloat16.

The setting is PyTorch's own, of a whole process (`torch.set_float32_matmul_precision`). By itself PyTorch
computes most products of "medium" in a higher precision; `product` and `library_lstm` use bfloat16. Weights
and elementwise operations stay float32.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, TypeAlias, get_args

import torch

from parser.batching.processor import Processor, processor

Precision: TypeAlias = Literal["float32", "tf32", "bfloat16"]
"""float32: exact products. tf32: factors of 10 bits, on CUDA. bfloat16: factors of 7 bits, sums in float32;
on a CPU the sums are rounded to bfloat16."""
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
_NAMES: dict[Precision, str] = {"float32": "highest", "tf32": "high", "bfloat16": "medium"}
"""PyTorch's names."""
WITH_FLOAT32_SUMS = "2.8"
"""The first version of PyTorch whose products of bfloat16 factors can be float32."""
AMPERE = (8, 0)
"""The compute capability of the first GPUs with tf32 and bfloat16."""
CPU_EXTENSIONS = "amx_bf16", "avx512_bf16"
"""Instructions that multiply bfloat16. Without them it is slower than float32."""


def set_precision(precision: Precision, device: torch.device) -> None:
    """Set the precision in this process. Raises ValueError if the device does not support it."""
    refuse_missing(precision, device)
    torch.set_float32_matmul_precision(_NAMES[precision])
    torch.backends.cudnn.allow_tf32 = precision != "float32"


@contextmanager
def computing_in(precision: Precision, device: torch.device) -> Iterator[None]:
    """As `set_precision`, until the block ends."""
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    set_precision(precision, device)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before[0])
        torch.backends.cudnn.allow_tf32 = before[1]


def present_precision() -> Precision:
    """That of this process."""
    name = torch.get_float32_matmul_precision()
    return next(precision for precision, its_name in _NAMES.items() if its_name == name)


def refuse_missing(precision: Precision, device: torch.device) -> None:
    """Raises ValueError if the device does not support the precision."""
    if reason := missing(precision, device, processor()):
        raise ValueError(f"precision {precision}: {reason}")


def missing(precision: Precision, device: torch.device, processor: Processor) -> str | None:
    """Why the device does not support the precision; None if it does."""
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
    """Whether PyTorch computes an LSTM in bfloat16 as `library_lstm` asks for it.

    It is tried, because what oneDNN uses of the processor's instructions can be limited from outside, and
    autocast gives it LSTMs of bfloat16 without asking whether it has them.
    """
    states = torch.zeros(1, 1, 1)
    weights = [torch.zeros(4, 1), torch.zeros(4, 1), torch.zeros(4), torch.zeros(4)]
    with torch.autocast("cpu", torch.bfloat16):
        try:
            torch.lstm(states, (states, states), weights, True, 1, 0.0, True, False, False)
        except RuntimeError:
            return False
    return True
