"""The processes that train together: joining them, their communication by `torch.distributed`, and noticing
that one is lost. Usually there is only one process, and nothing is sent.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass
from datetime import timedelta
from threading import Event, Thread
from typing import Any, NoReturn, Protocol, TypeVar

import torch
import torch.distributed as torch_distributed
from torch import Tensor, nn
from torch.distributed import Store, TCPStore

from parser.system.interruption import ignore_signals, interruptible
from parser.training.launcher import ANOTHER_REPORTS, LISTENER, WORD, is_one_of_several, lost_process

Value = TypeVar("Value")
PATIENCE = timedelta(days=1)
"""How long a process waits for another one. The first may train a tokenizer for hours. If a process dies,
this is noticed at once, because its connection is closed; on GPUs by `Watch`."""
FAILURES = "parser/failures"
"""Key in the store: the number of processes that have failed."""
SECONDS_BETWEEN_CALLS = 1.0
ANSWER_PATIENCE = timedelta(minutes=5)
"""How long a call waits for an answer, for example from a machine without power. The death of a process is
noticed at once."""
FAILS, STAYS, LEAVES = -1, 0, 1
"""What a process says in a call."""


class LostProcessError(Exception):
    """Another process has ended or cannot be reached. `saved` says what has been saved since."""

    def __init__(self, message: str, saved: str = ""):
        super().__init__(message)
        self.saved = saved


@contextmanager
def join_processes(exit_code: Callable[[BaseException], int]) -> Iterator[ProcessGroup]:
    """The group of the processes of a command that was started several times, or of this process alone.

    Only the first process writes to standard output. If processes fail, the first to fail raises its error,
    and the others raise SystemExit. A signal raises Interrupted once all processes have joined; earlier, it
    kills the process. exit_code: returns the exit code for an error.
    """
    if not is_one_of_several():
        yield ProcessGroup()
        return
    # PyTorch would kill this process when NCCL loses another one, before anything is saved; see `Watch`.
    os.environ.setdefault("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0")
    rank, count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store = _store(rank, count)
    has_gpus = torch.cuda.is_available() and torch_distributed.is_nccl_available()
    try:
        torch_distributed.init_process_group(
            "cpu:gloo,cuda:nccl" if has_gpus else "gloo",
            store=store,
            rank=rank,
            world_size=count,
            timeout=PATIENCE,
        )
        group = ProcessGroup(rank, count)
        group.greatest(0)  # so that no process can fail while another still connects to it
        with interruptible(), ExitStack() as stack:
            if rank:
                stack.enter_context(redirect_stdout(stack.enter_context(open(os.devnull, "w"))))
            yield group
    except (Exception, KeyboardInterrupt) as error:
        ignore_signals()  # the launcher sends one after another process ends; this one may have to report
        tells = _is_to_tell(error, store)  # before the others see that this one is gone
        # If a thread of Gloo still has a tensor when Python ends, it aborts the process:
        # https://github.com/pytorch/pytorch/pull/179291. NCCL is left alone: it may wait for a lost process.
        if torch_distributed.is_initialized() and not has_gpus:
            torch_distributed.destroy_process_group()
        if not tells:
            is_launched = WORD in os.environ and not isinstance(error, KeyboardInterrupt)
            sys.exit(ANOTHER_REPORTS if is_launched else exit_code(error))
        if isinstance(error, LostProcessError):
            raise ValueError(f"{lost_process(count)}{error.saved and f'; {error.saved}'}") from error
        raise
    torch_distributed.destroy_process_group()


def _store(rank: int, count: int) -> Store:
    if WORD not in os.environ:  # started by torchrun
        store, _, _ = next(iter(torch_distributed.rendezvous("env://", timeout=PATIENCE)))
        return store
    listener = None if rank else int(os.environ[LISTENER])
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    return TCPStore(host, port, count, not rank, PATIENCE, master_listen_fd=listener)


def _is_to_tell(error: BaseException, store: Store) -> bool:
    """Whether this process has to report the error. The launcher, if there is one, reports interruptions."""
    if WORD in os.environ:
        return not isinstance(error, KeyboardInterrupt) and bool(os.read(int(os.environ[WORD]), 1))
    try:
        return store.add(FAILURES, 1) == 1
    except RuntimeError:  # the machine with the store is gone
        return True


def device_of_process(device: torch.device) -> torch.device:
    """The GPU of this process, one per process on a machine; `device` if this is the CPU or the only process.

    Raises ValueError if there are too few GPUs.
    """
    if device.type != "cuda" or not is_one_of_several():
        return device
    number, count = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()
    if number >= count:
        raise ValueError(f"{number + 1} processes on a machine with {count} GPUs: start one for each GPU")
    torch.cuda.set_device(number)
    return torch.device("cuda", number)


@dataclass(frozen=True)
class ProcessGroup:
    """The group of processes, as seen by one of them.

    All processes must call a method that communicates; it raises LostProcessError if one of them has ended.
    """

    rank: int = 0
    count: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this is the process that writes files and messages."""
        return self.rank == 0

    def share(self, items: Sequence[Value]) -> Sequence[Value]:
        """The items that this process is to work on."""
        return items[self.rank :: self.count] if self.count > 1 else items

    def deal(self, rows: Tensor, lengths: Tensor) -> Tensor:
        """The sentences of a batch for this process, dealt so that all processes have about equal work.

        rows: [batch] numbers of sentences; lengths: [sentences] in words.
        """
        if self.count == 1:
            return rows
        by_length = rows[lengths[rows].argsort(descending=True, stable=True)]
        # Back and forth, 0 1 2 2 1 0 0 1 2 ..., or the first process would always get the longer sentences.
        turn = torch.arange(len(rows)) % (2 * self.count)
        return by_length[torch.minimum(turn, 2 * self.count - 1 - turn) == self.rank]

    def add_up(self, tensor: Tensor) -> None:
        """Replace a tensor by its sum over the processes, which is bitwise identical in all of them."""
        if self.count > 1:
            with _reachable():
                torch_distributed.all_reduce(tensor)

    def greatest(self, number: int) -> int:
        """The greatest of the processes' numbers; all wait until the last process has made this call."""
        if self.count == 1:
            return number
        numbers = torch.tensor([number], device="cpu")
        with _reachable():
            torch_distributed.all_reduce(numbers, torch_distributed.ReduceOp.MAX)
        return int(numbers)

    def gathered(self, value: Value) -> list[Value]:
        """The values of all processes. They must trust each other, since objects are unpickled."""
        if self.count == 1:
            return [value]
        values: list[Any] = [None] * self.count
        with _reachable():
            torch_distributed.all_gather_object(values, value)
        return values

    def from_first(self, value: Value | None) -> Value:
        """The value of the first process; the other processes wait for it."""
        values: list[Any] = [value]
        if self.count > 1:
            with _reachable():
                torch_distributed.broadcast_object_list(values, 0, device=torch.device("cpu"))
        first: Value = values[0]
        return first

    def wait_for_end_of_first(self) -> NoReturn:
        """Wait until the first process, which reports the error, has ended; raises LostProcessError then."""
        self.greatest(0)
        raise AssertionError("the first process goes on")

    @contextmanager
    def first_before_others(self) -> Iterator[None]:
        """Run the block in the first process before the others, which can use the files that it writes."""
        if not self.is_first:
            self.greatest(0)
        yield
        if self.is_first:
            self.greatest(0)


ALONE = ProcessGroup()


@contextmanager
def _reachable() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:  # the connection was closed, or there was no answer
        raise LostProcessError(str(error).partition("\n")[0]) from error


def sum_gradients(
    processes: ProcessGroup, network: nn.Module, changed_rows: Mapping[Tensor, Tensor], numbers: Tensor
) -> Tensor:
    """Replace the gradients of a network by their sums over the processes, in one message.

    Each process has the gradients of its sentences, as sums over transitions; later, they are divided once by
    the number of transitions in all processes. So any number of processes computes the same as a single one,
    even if a process has no sentence of a batch, or computes its part in microbatches. In contrast,
    `DistributedDataParallel` takes the mean over processes, and needs equally many backward passes in each.

    changed_rows: for some weights, the rows whose gradient can differ from zero in any process; only these
    are sent. numbers: [n] additional numbers to sum. Returns the sums of these. Raises LostProcessError.
    """
    weights = [weight for weight in network.parameters() if weight.requires_grad]
    parts: list[Tensor] = []
    for weight in weights:
        assert weight.grad is not None
        rows = changed_rows.get(weight)
        parts.append((weight.grad if rows is None else weight.grad[rows]).flatten())
    message = torch.cat([*parts, numbers.to(parts[0].dtype)])
    processes.add_up(message)
    *sums, summed_numbers = message.split([*map(len, parts), len(numbers)])
    for weight, total in zip(weights, sums, strict=True):
        rows = changed_rows.get(weight)
        if rows is None:
            weight.grad = total.view_as(weight)
        else:
            assert weight.grad is not None
            weight.grad.index_copy_(0, rows, total.view(len(rows), -1))
    return summed_numbers


@contextmanager
def watched(processes: ProcessGroup, device: torch.device) -> Iterator[Watch | None]:
    """Watch the processes that train together on GPUs. Yields None if the sums are made by the host."""
    if processes.count == 1 or device.type != "cuda":
        yield None
        return
    group: Any = torch_distributed.group.WORLD
    with watch_over(group._get_backend(device)) as watch:
        yield watch


@contextmanager
def watch_over(backend: Backend) -> Iterator[Watch]:
    """Watch the processes in the block, which all of them enter."""
    watch = Watch(backend)
    try:
        yield watch
    except BaseException:
        watch.end(FAILS)
        raise
    watch.end(LEAVES)


class Watch:
    """Calls the other processes in a thread, and aborts the backend if one of them does not answer.

    NCCL adds up on the device, after the call has returned. If a process dies, the kernels of the others wait
    for it for ever, and so do their hosts as soon as they read from the device: not even a signal is handled
    then. Therefore a thread of each process calls the others by Gloo, whose connections close with a process.
    If a call fails, the thread aborts NCCL. Its kernels end, and the host goes on, but with arbitrary sums.
    """

    def __init__(self, backend: Backend):
        """All processes must create their watches."""
        self._backend, self._failure = backend, ""
        self._group = torch_distributed.new_group(backend="gloo", timeout=ANSWER_PATIENCE)
        self._says, self._has_ended = STAYS, Event()
        self._thread = Thread(target=self._call_others, name="watch", daemon=True)
        self._thread.start()

    def refuse_if_lost(self) -> None:
        """Raises LostProcessError if what has been read from the device may follow from arbitrary sums."""
        if self._failure:
            raise LostProcessError(self._failure)

    def end(self, says: int) -> None:
        """End the thread. says: LEAVES if all processes end their watches, FAILS if only this one does."""
        self._says = says
        self._has_ended.set()
        self._thread.join()

    def _call_others(self) -> None:
        least = STAYS  # what is said by the process that says the least
        try:
            while least == STAYS:
                said = torch.tensor([self._says], device="cpu")
                torch_distributed.all_reduce(said, torch_distributed.ReduceOp.MIN, self._group)
                least = int(said)
                if least == STAYS:
                    self._has_ended.wait(SECONDS_BETWEEN_CALLS)
            if least == FAILS and self._says != FAILS:
                self._abort("another process has failed")
        except RuntimeError as error:
            self._abort(str(error).partition("\n")[0])

    def _abort(self, failure: str) -> None:
        self._failure = failure  # before any sum becomes arbitrary
        self._backend.abort()


class Backend(Protocol):
    """What adds up on the device."""

    def abort(self) -> None:
        """End what waits for other processes. Called in another thread than the one that waits."""
