"""The device of a stage: the GPU, or in a rehearsal the simulated one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest import mock

import torch

from parser.batching.functional import set_precision
from parser.system.machine import tune_process

if TYPE_CHECKING:
    from simulated_cuda.device import SimulatedCuda


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
        found = [error, *([error.__context__] if error.__context__ else [])]
        return " after ".join(f"{type(each).__name__}: {each}".splitlines()[0] for each in found)
    return "ok"
