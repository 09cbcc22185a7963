"""The device of a stage, the GPU or in a rehearsal the simulated one, and its kernels in a profile."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest import mock

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from parser.batching.functional import set_precision
from parser.system.pytorch import tune_process

if TYPE_CHECKING:
    from simulated_cuda.device import SimulatedCuda

KINDS = {
    "products": ("gemm", "gemv", "cutlass", "nvjet", "xmma", "splitk"),
    "fused LSTM cells": ("lstm_cell",),
    "cuDNN's LSTM": ("lstm", "rnn", "persist"),
    "copies": ("memcpy", "memset", "copy"),
    "random numbers": ("distribution", "philox", "random"),
    "gathers and scatters": ("index", "gather", "scatter", "embedding", "sort", "radix"),
    "all weights at once": ("multi_tensor", "foreach"),
    "sums": ("reduce", "softmax", "logsumexp", "norm"),
    "elementwise": ("elementwise", "fill"),
}
"""Parts of names, in lower case. The first kind counts."""
OTHER = "other"
UPLOAD = "Memcpy HtoD"
LAUNCHES = "cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel", "cuLaunchKernelEx", "cudaGraphLaunch"
WAITS = "cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize"
"""Calls of CUDA by the host."""
MOST = 12
"""Kernels named in a result."""


class Visited(NamedTuple):
    device: torch.device
    simulated: SimulatedCuda | None


@contextmanager
def visited_device(rehearse: bool) -> Iterator[Visited]:
    """Prepare this process as the program's commands do.

    Yields the GPU, or in a rehearsal the simulated one.
    """
    tune_process()
    torch.set_num_threads(1)
    with ExitStack() as stack:
        visited = Visited(torch.device("cuda", 0), None)
        if rehearse:
            from simulated_cuda.device import SimulatedCuda  # needs packages that a visit does not

            simulated = stack.enter_context(SimulatedCuda())
            visited = Visited(simulated.name, simulated)
        set_precision("float32", visited.device)
        yield visited


def graph_class() -> type[Any]:
    """The class of captured graphs, whose method `replay` can be replaced."""
    graph: Any = torch.cuda.CUDAGraph
    return graph if isinstance(graph, type) else graph.func  # simulated: with its device


@contextmanager
def counted_replays() -> Iterator[list[None]]:
    """Yields a list that grows by one element for each replay of a graph."""
    replays: list[None] = []
    replay = graph_class().replay

    def counted(graph: Any) -> None:
        replays.append(None)
        replay(graph)

    with mock.patch.object(graph_class(), "replay", counted):
        yield replays


def outcome(action: Callable[[], object]) -> str:
    """What became of an action: "ok", or its error, and the error in whose handling that was raised."""
    try:
        action()
    except Exception as error:  # which one is to be found out
        errors = [error, *([error.__context__] if error.__context__ else [])]
        return " after ".join(f"{type(each).__name__}: {each}".splitlines()[0] for each in errors)
    return "ok"


class Kernel(NamedTuple):
    name: str
    start: float
    """In microseconds, as the following one."""
    end: float


@dataclass
class Profile:
    """What a GPU did, and what the host asked of it."""

    kernels: list[Kernel] = field(default_factory=list)
    """Also copies, by the time at which they began."""
    launches: int = 0
    uploads: int = 0
    waits: int = 0


@contextmanager
def profiled(visited: Visited) -> Iterator[Profile]:
    """Profile a block of work; the result is complete at its end.

    Simulated, kernels are operators that take a microsecond each.
    """
    seen = Profile()
    if visited.simulated:
        visited.simulated.counted()
        yield seen
        counts = visited.simulated.counted()
        names = counts.operators.elements()
        seen.kernels = [Kernel(name, start, start + 1) for start, name in enumerate(names)]
        seen.launches, seen.uploads = counts.launches, counts.uploads
        seen.waits = counts.synchronizations.total()
        return
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        yield seen
        torch.cuda.synchronize()
    events = list(profiler.events() or ())
    calls = Counter(event.name for event in events)
    seen.kernels = sorted(
        (
            Kernel(event.name, event.time_range.start, event.time_range.end)
            for event in events
            if event.device_type == DeviceType.CUDA and not event.is_user_annotation
        ),
        key=attrgetter("start"),
    )
    seen.launches = sum(calls[name] for name in LAUNCHES)
    seen.uploads = sum(UPLOAD in kernel.name for kernel in seen.kernels)
    seen.waits = sum(calls[name] for name in WAITS) - 1  # one is that of the end


def described(kernels: Sequence[Kernel]) -> dict[str, Any]:
    """Counts and milliseconds of kernels, by kind and of the longest names, and the time between kernels."""
    if not kernels:
        return {"kernels": 0}
    busy, gaps = _busy_and_gaps(kernels)
    by_kind = _sums((kind_of(kernel.name), kernel) for kernel in kernels)
    by_name = _sums((kernel.name[:100], kernel) for kernel in kernels)
    longest = dict(sorted(by_name.items(), key=lambda item: -item[1]["ms"])[:MOST])
    return {
        "kernels": len(kernels),
        "busy_ms": round(busy / 1000, 4),
        "gaps_ms": round(sum(gaps) / 1000, 4),
        "gaps": len(gaps),
        "sum_ms": round(sum(kernel.end - kernel.start for kernel in kernels) / 1000, 4),
        "by_kind": by_kind,
        "longest": longest,
    }


def kind_of(name: str) -> str:
    lower = name.lower()
    return next((kind for kind, signs in KINDS.items() if any(sign in lower for sign in signs)), OTHER)


def _sums(named: Iterable[tuple[str, Kernel]]) -> dict[str, dict[str, float]]:
    times = defaultdict[str, list[float]](list)
    for name, kernel in named:
        times[name].append(kernel.end - kernel.start)
    return {
        name: {"count": len(durations), "ms": round(sum(durations) / 1000, 4)}
        for name, durations in times.items()
    }


def _busy_and_gaps(kernels: Sequence[Kernel]) -> tuple[float, list[float]]:
    """The time in which at least one kernel ran, and each time in between. kernels: in order."""
    busy, gaps, end = 0.0, [], kernels[0].start
    for kernel in kernels:
        if kernel.start > end:
            gaps.append(kernel.start - end)
        busy += max(0.0, kernel.end - max(end, kernel.start))
        end = max(end, kernel.end)
    return busy, gaps
