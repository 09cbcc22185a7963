"""The same model for the CPU of this machine, with its own figures: a check of the counts.

A CPU does all one after the other. Its products are the slower the fewer rows they have, and its memory is
slow beyond the cache.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable
from typing import Any

import torch
from simulated_cuda.work import OperatorCall
from torch import Tensor
from torch.autograd import Function

from parser.batching.functional import times_transposed
from parser.batching.lstm import tanh
from prediction.model import Step

SECONDS_EACH = 0.2
INNER, COLUMNS = 200, 800
"""Products are those of the StackLSTM's recurrence."""
ROWS = 1, 2, 4, 8, 16, 32, 64, 128, 256
CACHE = 1 << 20
"""Bytes; what is larger comes from memory."""
IN_CACHE, IN_MEMORY = 1 << 16, 1 << 24
"""Elements of tensors by which the speeds of cache and memory are measured."""
CHAIN = 100
"""Operators that are measured together."""


class ThisCpu:
    """Measured on one thread."""

    def __init__(self) -> None:
        self.arithmetic = [_product_speed(rows) for rows in ROWS]
        self.cache, self.memory = _memory_speed(IN_CACHE), _memory_speed(IN_MEMORY)
        numbers = torch.randn(IN_CACHE)
        self.exponential = _seconds(lambda: tanh(numbers)) / IN_CACHE
        small = torch.ones(4)
        whole = _seconds(lambda: _chain(small).backward())
        self.forward = _seconds(lambda: _chain(small)) / CHAIN
        self.backward = whole / CHAIN - self.forward
        self.function = _seconds(lambda: _Nothing.apply(small))

    def figures(self) -> dict[str, Any]:
        """In units that are read easily."""
        return {
            "GFLOP/s by rows": dict(
                zip(ROWS, (round(speed / 1e9, 1) for speed in self.arithmetic), strict=True)
            ),
            "GB/s of cache and memory": (round(self.cache / 1e9, 1), round(self.memory / 1e9, 1)),
            "ns of an exponential": round(self.exponential * 1e9, 2),
            "us of an operator, forward and backward": (
                round(self.forward * 1e6, 2),
                round(self.backward * 1e6, 2),
            ),
        }

    def predicted(self, step: Step) -> float:
        """Seconds."""
        return step.functions * self.function + sum(map(self._seconds_of, step.calls))

    def _seconds_of(self, call: OperatorCall) -> float:
        overhead = self.backward if call.is_backward else self.forward
        moving = call.bytes / (self.cache if call.bytes <= CACHE else self.memory)
        computing = call.transcendental * self.exponential
        if call.operations:
            computing += call.operations / self.arithmetic[max(0, bisect_right(ROWS, call.shortest) - 1)]
        return overhead + max(moving, computing)


class _Nothing(Function):
    @staticmethod
    def forward(ctx: object, tensor: Tensor) -> Tensor:
        return tensor.view_as(tensor)


def _product_speed(rows: int) -> float:
    """Operations per second, of weights that are in the cache."""
    left, right = torch.randn(rows, INNER), torch.randn(COLUMNS, INNER)
    return 2.0 * rows * INNER * COLUMNS / _seconds(lambda: times_transposed(left, right))


def _memory_speed(elements: int) -> float:
    """Bytes per second."""
    numbers, out = torch.ones(elements), torch.empty(elements)
    return 2.0 * numbers.nbytes / _seconds(lambda: torch.neg(numbers, out=out))


def _chain(start: Tensor) -> Tensor:
    """Operators as the program calls them: with views between them."""
    found = start.clone().requires_grad_()
    for _ in range(CHAIN):
        found = (found * 2.0)[:]
    return found.sum()


def _seconds(run: Callable[[], object]) -> float:
    """Of a run, the least over several tries."""
    run()
    found, ends = float("inf"), time.perf_counter() + SECONDS_EACH
    while (began := time.perf_counter()) < ends:
        run()
        found = min(found, time.perf_counter() - began)
    return found
