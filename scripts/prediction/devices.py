"""The figures of devices, and what of them programs reach."""

from __future__ import annotations

from typing import NamedTuple

from parser.batching import Precision


class Device(NamedTuple):
    name: str
    in_cuda: str
    """As CUDA names it."""
    memory: float
    """Bytes per second."""
    arithmetic: dict[Precision, float]
    """Floating-point operations per second of matrix products, without sparsity."""
    source: str


GPUS = (
    Device(
        "H100 SXM",
        "NVIDIA H100 80GB HBM3",
        3.35e12,
        {"float32": 67e12, "tf32": 494.5e12, "bfloat16": 989e12},
        "NVIDIA H100 Tensor Core GPU datasheet (sparse figures halved)",
    ),
    Device(
        "H200 SXM",
        "NVIDIA H200",
        4.8e12,
        {"float32": 67e12, "tf32": 494.5e12, "bfloat16": 989e12},
        "NVIDIA H200 Tensor Core GPU datasheet (sparse figures halved)",
    ),
    Device(
        "A100 SXM 80 GB",
        "NVIDIA A100-SXM4-80GB",
        2.039e12,
        {"float32": 19.5e12, "tf32": 156e12, "bfloat16": 312e12},
        "NVIDIA A100 Tensor Core GPU datasheet",
    ),
    Device(
        "T4",
        "Tesla T4",
        0.32e12,
        {"float32": 8.1e12},
        "NVIDIA T4 datasheet; it has neither tf32 nor bfloat16",
    ),
)
MEMORY_REACHED, ARITHMETIC_REACHED = 0.75, 0.67
"""The shares of a GPU's figures that kernels are assumed to reach: on an H100 2.5 TB/s and 45 TFLOP/s."""
