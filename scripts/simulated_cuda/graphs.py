"""CUDA graphs: captured operators are not executed until a replay, which repeats them on the same tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakSet

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._python_dispatch import _disable_current_modes

from simulated_cuda.operators import tensors_in

if TYPE_CHECKING:
    from simulated_cuda.device import SimulatedCuda


class CapturedCall(NamedTuple):
    compute: Callable[[], Any]
    given: set[int]
    """The addresses of the call's arguments: results at these addresses are changed in place."""
    result: Any


class Pool:
    """Memory that graphs share. It is held until all of them are gone."""

    def __init__(self) -> None:
        self.stream: object = None
        self.graphs: WeakSet[Graph] = WeakSet()
        self.bytes = 0
        """Those of the largest graph so far."""


class Graph:
    """torch.cuda.CUDAGraph."""

    def __init__(self, device: SimulatedCuda):
        self._device = device
        self._calls: list[CapturedCall] = []
        self.is_invalid = False
        """Whether something that a capture forbids was tried."""
        self._pool: Pool | None = None
        self._before: dict[int, tuple[Tensor, Tensor]] = {}

    def keep(self, operator: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Called before an operator: the tensors that it changes are restored at the end of the capture."""
        for tensor in _changed(operator, args, kwargs):
            address = _address(tensor)
            if address not in self._before:
                whole = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())
                self._before[address] = whole, whole.clone()

    def add(self, compute: Callable[[], Any], given: Sequence[Tensor], result: Any) -> None:
        """Called after an operator or a library call: `compute` computes the result again."""
        self._calls.append(CapturedCall(compute, set(map(_address, given)), result))

    def take_memory(self, pool: Pool) -> None:
        """Raises torch.OutOfMemoryError."""
        held = sum(made.nbytes() for made in self._made().values())
        others = sum(each.bytes for each in self._device.pools if each is not pool)
        if others + max(pool.bytes, held) > self._device.memory_for_graphs:
            raise torch.OutOfMemoryError("CUDA out of memory")
        pool.bytes = max(pool.bytes, held)
        pool.graphs.add(self)
        self._device.pools.add(pool)
        self._pool = pool

    def _made(self) -> dict[int, torch.UntypedStorage]:
        """The storages that the captured calls have created, by address."""
        results = (
            (tensor.untyped_storage(), given)
            for _, given, result in self._calls
            for tensor in tensors_in(result)
        )
        return {made.data_ptr(): made for made, given in results if made.data_ptr() not in given}

    def lose(self) -> None:
        """Overwrite the graph's results with NaN, as another graph of the pool would overwrite them."""
        for _, given, result in self._calls:
            for tensor in tensors_in(result):
                if tensor.is_floating_point() and _address(tensor) not in given:
                    tensor.detach().fill_(float("nan"))

    def end(self) -> None:
        for whole, before in self._before.values():
            whole.copy_(before)

    def replay(self) -> None:
        self._device.counts.operators["graph"] += 1
        with _disable_current_modes(), torch._C.DisableTorchFunction(), torch.no_grad():
            assert self._pool
            for other in self._pool.graphs:
                if other is not self:
                    other.lose()
            for compute, given, result in self._calls:
                for old, new in zip(tensors_in(result), tensors_in(compute()), strict=True):
                    if old.numel() and _address(old) not in given:
                        old.detach().copy_(new.detach())


@contextmanager
def capturing(
    device: SimulatedCuda,
    graph: Graph,
    pool: Pool | None = None,
    stream: object = None,
    capture_error_mode: str = "global",
) -> Iterator[None]:
    """The replacement of torch.cuda.graph."""
    torch.cuda.empty_cache()
    pool = pool or Pool()
    pool.stream = pool.stream or stream
    # On another stream PyTorch would use other memory.
    assert pool.stream is stream, "graphs of one pool need one stream"
    device.refuses_pinning = capture_error_mode == "global"
    random, was_left = device.generator.get_state(), device.generator_is_capturing
    device.captured, device.generator_is_capturing = graph, True
    try:
        yield
    finally:
        device.captured = None
        device.refuses_pinning = False
        with _disable_current_modes(), torch._C.DisableTorchFunction():
            graph.end()
            device.generator.set_state(random)
            if graph.is_invalid:
                device.allocates_to.append(pool)
                raise RuntimeError("CUDA error: operation failed due to a previous error during capture")
            device.generator_is_capturing = was_left and not device.recovers
    with _disable_current_modes(), torch._C.DisableTorchFunction():
        graph.take_memory(pool)


def _address(tensor: Tensor) -> int:
    """The address of the tensor's storage."""
    return tensor.untyped_storage().data_ptr()


def _changed(operator: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Tensor]:
    """The tensors that an operator writes to."""
    changed = []
    for position, argument in enumerate(operator._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            changed += tensors_in(args[position] if position < len(args) else kwargs.get(argument.name))
    return changed
