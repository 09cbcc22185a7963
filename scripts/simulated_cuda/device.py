"""A simulated CUDA device: tensors stay in host memory and are really computed; the program sees cuda:0.

One PyTorch mode handles the calls from Python; another sees every operator below autograd, including those of
the backward pass and the optimizer. Modes are local to a thread, so threads started in the context enter
them, too; other processes are not simulated.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from types import SimpleNamespace, TracebackType
from typing import Any
from unittest import mock

import torch
import torch.backends.cudnn.rnn
import torch.nn.utils.clip_grad
import torch.utils._foreach_utils
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from parser.batching import cuda_graph, lstm
from simulated_cuda import library
from simulated_cuda.counts import Counts
from simulated_cuda.graphs import Graph, Pool, capturing
from simulated_cuda.operators import Operators
from simulated_cuda.python_calls import PythonCalls

MEMORY = 80 << 30
"""Bytes of the device's memory."""
FIRST_CLEANING = 4096
"""The number of references to storages at which dead ones are first removed."""


class SimulatedCuda:
    """A context in which the machine has one CUDA device. `counts` counts the work of the device."""

    name = torch.device("cuda", 0)

    def __init__(self) -> None:
        self.storages, self.pinned, self.counts = Storages(), Storages(), Counts()
        self.generator = torch.Generator().manual_seed(0)
        self.of_dropout: torch.Generator | None = None
        """cuDNN's own generator, for the dropout between layers of an LSTM; None before its first use."""
        self.captured: Graph | None = None
        """The graph that is being captured."""
        self.generator_is_capturing = False
        """Whether random numbers are refused outside of a capture: a capture that fails leaves it so."""
        self.recovers = True
        """Whether a capture that succeeds ends what a failed one has left."""
        self.pools: set[Pool] = set()
        """The memory of graphs."""
        self.allocates_to: list[Pool] = []
        """The pools of captures whose end has failed. PyTorch's allocator goes on to allocate from them."""
        self.memory_for_graphs: float = math.inf
        """In bytes."""
        self.refuses_pinning = False
        """Whether no thread may allocate pinned memory, because of a capture."""
        self._now = _Moment()
        self._python_calls = PythonCalls(self)
        self._entered = ExitStack()

    def counted(self) -> Counts:
        """Returns the counts since the last call, and resets them."""
        counts, self.counts = self.counts, Counts()
        return counts

    def _in_threads(self) -> Callable[[threading.Thread], None]:
        """A replacement for `threading.Thread.run` that runs threads with this device."""
        run = threading.Thread.run

        def run_with_device(thread: threading.Thread) -> None:
            with Operators(self), self._python_calls:
                run(thread)

        return run_with_device

    def __enter__(self) -> SimulatedCuda:
        lstm._agrees.cache_clear()  # the cached answers belong to one device
        for module, replaced in self._replaced().items():
            self._entered.enter_context(mock.patch.multiple(module, **replaced))
        self._entered.enter_context(Operators(self))
        self._entered.enter_context(self._python_calls)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._entered.close()
        lstm._agrees.cache_clear()

    def _replaced(self) -> dict[Any, dict[str, Any]]:
        """Replacements for PyTorch functions that would ask the missing driver, by module."""
        by_device = {"_group_tensors_by_device_and_dtype": self._grouping()}
        return {
            torch.cuda: {
                "is_available": lambda: True,
                "is_initialized": lambda: True,
                "device_count": lambda: 1,
                "current_device": lambda: 0,
                "set_device": _set_device,
                "get_device_name": lambda device=None: "simulated",
                "get_device_capability": lambda device=None: (9, 0),
                "get_device_properties": lambda device=None: SimpleNamespace(total_memory=MEMORY),
                "mem_get_info": lambda device=None: (MEMORY, MEMORY),
                "max_memory_allocated": lambda device=None: 0,
                "max_memory_reserved": lambda device=None: 0,
                "memory_reserved": lambda device=None: 0,
                "reset_peak_memory_stats": lambda device=None: None,
                "empty_cache": self._empty_cache,
                "synchronize": lambda device=None: self.count_synchronization("torch.cuda.synchronize"),
                "Event": partial(Event, self),
                "CUDAGraph": partial(Graph, self),
                "graph": partial(capturing, self),
                "graph_pool_handle": Pool,
                "device": nullcontext,
                "device_of": nullcontext,
                "Stream": Stream,
                "current_stream": Stream,
                "set_stream": lambda stream: None,
                "stream": lambda stream: nullcontext(),
                "is_current_stream_capturing": lambda: self.captured is not None,
                "manual_seed_all": self.generator.manual_seed,
                "get_rng_state": lambda device=None: self.generator.get_state(),
                "set_rng_state": lambda state, device=None: self.generator.set_state(state),
            },
            cuda_graph: {"of_process": cuda_graph.Captures()},
            torch._C: {
                "_cuda_endAllocateToPool": self._end_allocation,
                "_cuda_releasePool": lambda device, pool: None,
            },
            threading.Thread: {"run": self._in_threads()},
            torch.backends.cudnn: {"is_acceptable": partial(library.is_acceptable, self)},
            torch.backends.cudnn.rnn: {"get_cudnn_mode": lambda mode: mode},
            torch: {
                "_use_cudnn_rnn_flatten_weight": lambda: True,
                "_cudnn_rnn_flatten_weight": partial(library.flatten_weights, self),
            },
            torch.autograd: {"_engine_run_backward": self._running_backward()},
            torch.nn.utils.clip_grad: by_device,
            torch.utils._foreach_utils: by_device,
        }

    def _running_backward(self) -> Callable[..., Any]:
        run = torch.autograd._engine_run_backward

        def run_backward(roots: Sequence[Tensor], *args: Any, **kwargs: Any) -> Any:
            is_there = any(root in self.storages for root in roots)
            # It is called by an overridden function, in which the mode is off.
            with self._with("in_backward", is_there), self.called_by_python(False), self._python_calls:
                return run(roots, *args, **kwargs)

        return run_backward

    def _grouping(self) -> Callable[..., Any]:
        group = torch.utils._foreach_utils._group_tensors_by_device_and_dtype

        def by_device(tensors: Sequence[Sequence[Tensor]], with_indices: bool = False) -> dict:
            return {
                (self.name if groups[0][0] in self.storages else device, dtype): (groups, indices)
                for (device, dtype), (groups, indices) in group(tensors, with_indices).items()
            }

        return by_device

    @property
    def is_creating(self) -> bool:
        """Whether operators without tensor arguments create on the device: set, or in autograd formulas."""
        now = self._now
        return now.creating or (now.in_backward and not now.called_by_python)

    @property
    def is_silent(self) -> bool:
        return self._now.silent

    def creating(self) -> AbstractContextManager[None]:
        """A context in which operators create tensors on the device."""
        return self._with("creating", True)

    def called_by_python(self, directly: bool) -> AbstractContextManager[None]:
        return self._with("called_by_python", directly)

    def silent(self) -> AbstractContextManager[None]:
        """A context in which nothing is counted or refused."""
        return self._with("silent", True)

    @contextmanager
    def _with(self, attribute: str, value: bool) -> Iterator[None]:
        """Set an attribute of the thread's state until the block ends."""
        before = getattr(self._now, attribute)
        setattr(self._now, attribute, value)
        try:
            yield
        finally:
            setattr(self._now, attribute, before)

    def count_synchronization(self, cause: str) -> None:
        if self.is_silent:
            return
        self._refuse_in_capture(cause)
        self.counts.synchronize(cause)

    def _refuse_in_capture(self, cause: str) -> None:
        if self.captured:
            self.captured.is_invalid = True
            raise RuntimeError(f"operation not permitted when stream is capturing: {cause}")

    def _empty_cache(self) -> None:
        """Free the memory of graphs, if all that share it are gone."""
        if self.allocates_to:
            raise RuntimeError("captures_underway.empty() INTERNAL ASSERT FAILED")
        self.pools = {pool for pool in self.pools if pool.graphs}

    def _end_allocation(self, device: int, pool: Pool) -> None:
        if pool not in self.allocates_to:
            raise RuntimeError("endAllocatePool: not currently recording to mempool_id")
        self.allocates_to.remove(pool)

    def count_call(self, name: str) -> None:
        """Count a launch, unless a graph that is being captured will repeat it."""
        if not self.captured:
            self.counts.operators[name] += 1

    def count_upload(self, source: Tensor, non_blocking: bool) -> None:
        if self.is_silent:
            return
        self._refuse_in_capture("upload")
        self.counts.uploads += 1
        if not (non_blocking and source in self.pinned):
            self.count_synchronization("copy to the device that waits")

    def pin(self, tensor: Tensor) -> Tensor:
        """Mark the tensor as pinned, and return it. Raises RuntimeError during a capture that forbids it."""
        if self.refuses_pinning:
            raise RuntimeError("operation not permitted when stream is capturing: cudaHostAlloc")
        return self.pinned.add(tensor)

    def require(self, tensors: Iterable[Tensor]) -> None:
        """Raises RuntimeError, as the library does, unless all tensors are on the device."""
        if not (self.is_silent or all(tensor in self.storages for tensor in tensors)):
            raise RuntimeError("Input and parameter tensors are not at the same device")


class Storages:
    """A set of storages that does not keep them alive. A view belongs to it if its tensor's storage does."""

    def __init__(self) -> None:
        # By address. The reference distinguishes a storage from a later one at the same address.
        self._references: dict[int, StorageWeakRef] = {}
        self._limit = FIRST_CLEANING

    def add(self, tensor: Tensor) -> Tensor:
        """Add the tensor's storages, and return the tensor."""
        for part in _dense(tensor):
            storage = part.untyped_storage()
            self._references[storage._cdata] = StorageWeakRef(storage)
        if len(self._references) > self._limit:
            self._forget_the_dead()
        return tensor

    def discard(self, tensor: Tensor) -> None:
        for part in _dense(tensor):
            self._references.pop(part.untyped_storage()._cdata, None)

    def __contains__(self, tensor: Tensor) -> bool:
        return any(self._has(part) for part in _dense(tensor))

    def _has(self, tensor: Tensor) -> bool:
        reference = self._references.get(tensor.untyped_storage()._cdata)
        return reference is not None and not reference.expired()

    def _forget_the_dead(self) -> None:
        self._references = {
            address: reference for address, reference in self._references.items() if not reference.expired()
        }
        self._limit = max(FIRST_CLEANING, 2 * len(self._references))


def _dense(tensor: Tensor) -> list[Tensor]:
    """The parts of a tensor that have storages: the indices and values of a sparse tensor."""
    if tensor.device.type == "meta":
        return []
    if tensor.layout is torch.sparse_coo:
        return [tensor._indices(), tensor._values()]
    return [tensor] if tensor.layout is torch.strided else []


class _Moment(threading.local):
    """The current state of each thread."""

    creating = in_backward = called_by_python = silent = False


class Stream:
    """torch.cuda.Stream. All work is done in the order of its calls, whatever its stream."""

    def __init__(self, device: Any = None):
        self.device = device


class Event:
    """torch.cuda.Event, timed by the host's clock."""

    def __init__(self, device: SimulatedCuda, **how: bool):
        self._device, self._time = device, 0.0

    def record(self, stream: Any = None) -> None:
        self._time = time.perf_counter()

    def synchronize(self) -> None:
        self._device.count_synchronization("Event.synchronize")

    def elapsed_time(self, later: Event) -> float:
        """Milliseconds from this event to a later one."""
        return 1000 * (later._time - self._time)


def _set_device(device: torch.device | int) -> None:
    """Like PyTorch's function, refuses a device without an index."""
    if isinstance(device, torch.device) and device.index is None:
        raise ValueError(f"Expected a torch.device with a specified index or an integer, but got:{device}")
