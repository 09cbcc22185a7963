"""Whether a method has the results of the same plugin without batching, except for rounding."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from parser.batching.functional import Precision

ROUNDING: dict[Precision, float] = {"float32": 2e-4, "tf32": 1e-2, "bfloat16": 5e-2}
"""Relative difference of results that is taken for rounding."""


def numbers(results: Tensor | Sequence[float]) -> list[float]:
    """The results of a plugin's `check` as a flat list."""
    return torch.as_tensor(results).detach().double().flatten().tolist()


def disagreement(
    results: Sequence[float] | None, expected: Sequence[float] | None, rounding: float = ROUNDING["float32"]
) -> str | None:
    """Where a method's results differ by more than rounding from those without batching, or None."""
    if results is None or expected is None or len(results) != len(expected):
        return f"{len(results or ())} results, but {len(expected or ())} without batching"
    smallest = rounding**2 * max(map(abs, expected), default=0.0)  # differences below are rounding, too
    for number, (one, other) in enumerate(zip(results, expected, strict=True)):
        if not abs(one - other) <= rounding * abs(other) + smallest:  # written so that NaN differs
            return f"result {number} is {one:.9g}, but {other:.9g} without batching"
    return None
