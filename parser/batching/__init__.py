"""Batching of irregular computation, independent of sentences and parsers."""

from typing import Literal, TypeAlias, get_args

Precision: TypeAlias = Literal["float32", "tf32", "bfloat16"]
"""The precision of matrix products. float32: exact. tf32: factors of 10 bits, on CUDA. bfloat16: factors of
7 bits, sums in float32; on a CPU the sums are rounded to bfloat16."""
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
