"""Predicts the seconds of a step from its calls, and what limits it.

A GPU works through its kernels one after the other, while the host launches the next ones. So a step takes
the longer of the two times. The host also makes the batch. In training a thread does so in advance; it shares
Python's lock with the launches. So there are two predictions: with the times of launching and of making the
batch added, and with the two in parallel.

The CPU of this machine checks the counts: its figures are measured, and it does everything sequentially. Its
products are slower the fewer rows they have, and its memory is slow beyond the cache.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from measuring import least_seconds
from simulated_cuda.work import OperatorCall
from torch import Tensor
from torch.autograd import Function

from parser.batching import Precision
from parser.batching.functional import times_transposed
from parser.batching.lstm import tanh


class Device(NamedTuple):
    name: str
    in_cuda: str
    """The device's name in CUDA."""
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
INNER, COLUMNS = 200, 800
"""The sizes of matrix products in the StackLSTM's recurrence."""
ROWS = 1, 2, 4, 8, 16, 32, 64, 128, 256
CACHE = 1 << 20
"""Bytes; larger tensors are read from memory."""
IN_CACHE, IN_MEMORY = 1 << 16, 1 << 24
"""Elements of the tensors with which the speeds of cache and memory are measured."""
CHAIN = 100
"""Operators that are measured together."""


class Overheads(NamedTuple):
    """Seconds that do not depend on the amount of computation."""

    forward: float
    """Host time of an operator called by Python."""
    backward: float
    """Host time of an operator called by autograd."""
    function: float
    """Host time of a pass through an autograd function in Python."""
    kernel: float
    """The least device time of a kernel."""
    frame: float
    """The least device time of a frame of a library's LSTM, forward; the backward pass takes twice that."""
    launch: float
    """Host time of a kernel that a library launches by itself."""


ON_GPU = Overheads(forward=6e-6, backward=5e-6, function=20e-6, kernel=3e-6, frame=8e-6, launch=3e-6)


class Step(NamedTuple):
    """The counts of a step."""

    calls: list[OperatorCall]
    functions: int
    """Passes through autograd functions in Python."""
    preparation: float
    """Seconds that this machine's CPU needed to make the batch."""
    in_graph: Sequence[OperatorCall] = ()
    """Operators that a CUDA graph repeats, besides `calls`. The host launches them by one call."""


class Prediction(NamedTuple):
    """The predicted seconds of a step."""

    launching: float
    preparing: float
    device: float
    device_binds: str
    """What limits the device: launches, memory or arithmetic."""

    @property
    def added(self) -> float:
        """Seconds if the thread that prepares batches gains nothing."""
        return max(self.launching + self.preparing, self.device)

    @property
    def side_by_side(self) -> float:
        """Seconds if the thread that prepares batches does not slow down the launches."""
        return max(self.launching, self.preparing, self.device)

    @property
    def binds(self) -> str:
        return self.device_binds if self.device >= self.added else "host"


def predicted(step: Step, device: Device, precision: Precision, overheads: Overheads = ON_GPU) -> Prediction:
    """The prediction for a GPU whose host is as fast as the machine that measured `step.preparation`."""
    memory = MEMORY_REACHED * device.memory
    arithmetic = ARITHMETIC_REACHED * device.arithmetic[precision]
    kernels = [_kernel(call, memory, arithmetic, overheads) for call in (*step.calls, *step.in_graph)]
    on_device = sum(seconds for seconds, _ in kernels)
    return Prediction(launching_seconds(step, overheads), step.preparation, on_device, _most(kernels))


def launching_seconds(step: Step, overheads: Overheads) -> float:
    """Seconds to launch all kernels of a step."""
    backward = sum(call.is_backward for call in step.calls)
    by_libraries = sum(call.launches - 1 for call in step.calls)
    return (
        (len(step.calls) - backward) * overheads.forward
        + backward * overheads.backward
        + step.functions * overheads.function
        + by_libraries * overheads.launch
        + (overheads.forward if step.in_graph else 0)
    )


def _kernel(call: OperatorCall, memory: float, arithmetic: float, overheads: Overheads) -> tuple[float, str]:
    """The seconds of an operator's kernel, and what limits it."""
    passes = 2 if call.is_backward else 1
    least = passes * call.frames * overheads.frame if call.frames else overheads.kernel
    bounds = {
        "launches": least,
        "memory": call.bytes / memory,
        "arithmetic": call.operations / arithmetic,
    }
    binds = max(bounds, key=bounds.__getitem__)
    return bounds[binds], binds


def _most(kernels: Iterable[tuple[float, str]]) -> str:
    """What limits the kernels for the longest time."""
    by_bound: Counter[str] = Counter()
    for seconds, binds in kernels:
        by_bound[binds] += seconds  # type: ignore[assignment]
    return max(by_bound, key=by_bound.__getitem__)


class ThisCpu:
    """This machine's CPU, measured on one thread."""

    def __init__(self) -> None:
        self.arithmetic = [_product_speed(rows) for rows in ROWS]
        self.cache, self.memory = _memory_speed(IN_CACHE), _memory_speed(IN_MEMORY)
        numbers = torch.randn(IN_CACHE)
        self.exponential = least_seconds(lambda: tanh(numbers)) / IN_CACHE
        small = torch.ones(4)
        whole = least_seconds(lambda: _chain(small).backward())
        self.forward = least_seconds(lambda: _chain(small)) / CHAIN
        self.backward = whole / CHAIN - self.forward
        self.function = least_seconds(lambda: _Nothing.apply(small))

    def figures(self) -> dict[str, Any]:
        """The measured figures in easily read units."""
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
        """The predicted seconds of a step."""
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
    """Operations per second of a product with weights in the cache."""
    left, right = torch.randn(rows, INNER), torch.randn(COLUMNS, INNER)
    return 2.0 * rows * INNER * COLUMNS / least_seconds(lambda: times_transposed(left, right))


def _memory_speed(elements: int) -> float:
    """Bytes per second of an elementwise operator on tensors of this size."""
    numbers, out = torch.ones(elements), torch.empty(elements)
    return 2.0 * numbers.nbytes / least_seconds(lambda: torch.neg(numbers, out=out))


def _chain(start: Tensor) -> Tensor:
    """A chain of operators called as in the program: with views between them."""
    found = start.clone().requires_grad_()
    for _ in range(CHAIN):
        found = (found * 2.0)[:]
    return found.sum()
