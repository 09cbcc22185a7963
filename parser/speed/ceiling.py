"""The speed of the machine's large matrix products, with which the speed of models is compared (MFU)."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from parser.batching.precision import Precision, set_precision
from parser.batching.product import by_onednn, has_onednn
from parser.speed.stopwatch import synchronise

SHAPES = {"cpu": ((1024, 1024, 1024), (4096, 256, 1024)), "cuda": ((8192, 8192, 8192), (65536, 256, 1024))}
"""Rows, inner size and columns of each product."""
SECONDS_EACH = 0.05
PRODUCTS_BETWEEN_SYNCHRONISATIONS = {"cpu": 1, "cuda": 4}


class Ceiling:
    """Large products in a precision, measured for a short time in each turn."""

    def __init__(self, device: str, threads: int, precision: Precision):
        """Raises ValueError if the device does not have the precision."""
        torch.set_num_threads(threads)
        self._device = torch.device(device)
        set_precision(precision, self._device)
        self._products: list[tuple[Callable[[], Tensor], int]] = []
        for rows, inner, columns in SHAPES[self._device.type]:
            left = torch.randn(rows, inner, device=self._device)
            right = torch.randn(columns, inner, device=self._device)
            if precision == "bfloat16":
                left, right = left.bfloat16(), right.bfloat16()
            both = device == "cpu" and has_onednn() and precision == "float32"
            for product in (F.linear, by_onednn) if both else (F.linear,):
                self._products.append((partial(product, left, right), 2 * rows * inner * columns))

    def turn(self) -> list[float]:
        """Operations per second of each product."""
        return [self._speed(product, operations) for product, operations in self._products]

    def _speed(self, product: Callable[[], Tensor], operations: int) -> float:
        product()
        synchronise(self._device)
        between = PRODUCTS_BETWEEN_SYNCHRONISATIONS[self._device.type]
        repetitions, began = 0, time.perf_counter()
        while (passed := time.perf_counter() - began) < SECONDS_EACH or not repetitions:
            for _ in range(between):
                product()
            synchronise(self._device)
            repetitions += between
        return repetitions * operations / passed
