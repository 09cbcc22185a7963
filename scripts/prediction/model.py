"""From the calls of a step to its seconds, and to what binds it.

A GPU works through its kernels one after the other, while the host launches the next ones. So a step takes
the longer of both. The host also makes the batch. In training a thread does so, ahead; it shares Python's
lock with the launches. So there are two predictions: with both added, and with both side by side.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from simulated_cuda.work import OperatorCall

from parser.batching import Precision
from prediction.devices import ARITHMETIC_REACHED, MEMORY_REACHED, Device


class Overheads(NamedTuple):
    """Seconds that do not depend on how much is computed."""

    forward: float
    """Of the host, for an operator called by Python."""
    backward: float
    """Of the host, for an operator called by autograd."""
    function: float
    """Of the host, for a pass through an autograd function in Python."""
    kernel: float
    """Of the device, at least, for a kernel."""
    frame: float
    """Of the device, at least, for a frame of a library's LSTM, forward; backward it is twice that."""
    launch: float
    """Of the host, for a kernel that a library launches by itself."""


ON_GPU = Overheads(forward=6e-6, backward=5e-6, function=20e-6, kernel=3e-6, frame=8e-6, launch=3e-6)


class Step(NamedTuple):
    """What was counted of a step."""

    calls: list[OperatorCall]
    functions: int
    """Passes through autograd functions in Python."""
    preparation: float
    """Seconds in which this machine's CPU made the batch."""
    in_graph: Sequence[OperatorCall] = ()
    """What a CUDA graph repeats, besides `calls`. The host launches it by one call."""


class Prediction(NamedTuple):
    """Seconds of a step."""

    launching: float
    preparing: float
    device: float
    device_binds: str
    """launches, memory or arithmetic."""

    @property
    def added(self) -> float:
        """If the thread that prepares batches gains nothing."""
        return max(self.launching + self.preparing, self.device)

    @property
    def side_by_side(self) -> float:
        """If it takes nothing from the launches."""
        return max(self.launching, self.preparing, self.device)

    @property
    def binds(self) -> str:
        return self.device_binds if self.device >= self.added else "host"


def predicted(step: Step, device: Device, precision: Precision, overheads: Overheads = ON_GPU) -> Prediction:
    """Of a GPU, whose host is as fast as the machine on which `step.preparation` was measured."""
    memory = MEMORY_REACHED * device.memory
    arithmetic = ARITHMETIC_REACHED * device.arithmetic[precision]
    kernels = [_kernel(call, memory, arithmetic, overheads) for call in (*step.calls, *step.in_graph)]
    on_device = sum(seconds for seconds, _ in kernels)
    return Prediction(launching_seconds(step, overheads), step.preparation, on_device, _most(kernels))


def launching_seconds(step: Step, overheads: Overheads) -> float:
    """To launch all kernels."""
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
    """Its seconds, and what binds it."""
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
    """What binds for the longest time."""
    by_bound: Counter[str] = Counter()
    for seconds, binds in kernels:
        by_bound[binds] += seconds  # type: ignore[assignment]
    return max(by_bound, key=by_bound.__getitem__)
