"""A stage: what becomes of a process after a capture has failed. Each result says what was tried.

python scripts/studies/gpu/try_failed_captures.py pytorch wait      # the host waits in a capture
python scripts/studies/gpu/try_failed_captures.py training memory   # captures of a training run lack memory

PyTorch alone: whether random numbers can be drawn and the cache can be emptied afterwards, and whether
another capture, of work that can be captured, changes that.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import torch.nn.functional as F
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parents[2]))  # modules shared by scripts

from gpu_visit.device import counted_replays, outcome, visited_device
from gpu_visit.runner import report
from gpu_visit.training import GRAPHS, Run, config_maker

from parser.training.word_dropout import WordDropout
from parser.treebank.tokens import Tokens

TOO_MUCH = 1 << 50
"""Bytes that no GPU has."""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("what", choices=("pytorch", "training"))
    options.add_argument("cause", choices=("wait", "memory"))
    options.add_argument("--rehearse", action="store_true")
    given = options.parse_args()
    run_out = _have_too_little if given.rehearse else _ask_for_too_much
    fail = run_out if given.cause == "memory" else _wait
    with visited_device(given.rehearse) as visited:
        if given.what == "pytorch":
            _pytorch_alone(visited.device, fail)
        else:
            _training(visited.device, fail, given.rehearse)


def _wait(tensor: Tensor) -> None:
    tensor.sum().item()


def _ask_for_too_much(tensor: Tensor) -> None:
    torch.empty(TOO_MUCH, dtype=torch.uint8, device=tensor.device)


def _have_too_little(tensor: Tensor) -> None:
    raise torch.OutOfMemoryError("as rehearsed")  # the simulated memory is the host's


def _pytorch_alone(device: torch.device, fail: Callable[[Tensor], None]) -> None:
    numbers = torch.ones(1024, device=device)

    def random_work() -> None:
        numbers.add_(F.dropout(numbers, 0.5))

    def failing_work() -> None:
        random_work()
        fail(numbers)

    def end_allocation() -> None:
        torch._C._cuda_endAllocateToPool(0, pool)
        torch._C._cuda_releasePool(0, pool)

    kept: list[Any] = []
    pool = torch.cuda.graph_pool_handle()
    random_work()  # outside of a graph, as a first step does
    actions: dict[str, Callable[[], object]] = {
        "a capture that fails": lambda: _capture(failing_work, kept, pool),
        "random numbers after it": random_work,
        "the generator's state after it": lambda: torch.cuda.get_rng_state(device),
        "a sum after it": numbers.sum().item,
        "emptying the cache after it": torch.cuda.empty_cache,
        "a capture of a sum at once": lambda: _capture(lambda: numbers.add_(1), kept),
        "ending the allocation of the failed one": end_allocation,
        "a capture of a sum": lambda: _capture(lambda: numbers.add_(1), kept),
        "random numbers after that": random_work,
        "emptying the cache after that": torch.cuda.empty_cache,
        "a capture with random numbers": lambda: _capture(random_work, kept),
        "a sum in the end": numbers.sum().item,
    }
    for name, action in actions.items():
        report(pytorch=name, became=outcome(action), reserved_mib=torch.cuda.memory_reserved(device) >> 20)


def _capture(work: Callable[[], object], kept: list[Any], pool: Any = None) -> None:
    """Capture and replay. kept: gets the graph, which is freed no sooner, as in the program."""
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
    kept.append(graph)
    try:
        with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
            work()
    except RuntimeError:
        torch.cuda.set_stream(stream)  # PyTorch stays on the capture's stream if its end fails
        raise
    graph.replay()


def _training(device: torch.device, fail: Callable[[Tensor], None], rehearse: bool) -> None:
    """Train two epochs with dropout and with graphs, none of which can be captured."""
    drop = WordDropout.__call__

    def failing_drop(word_dropout: WordDropout, tokens: Tokens) -> Tokens:
        if torch.cuda.is_current_stream_capturing():
            fail(tokens.values)
        return drop(word_dropout, tokens)

    size = f"training.batch_size={16 if rehearse else 256}"
    with config_maker(rehearse) as config_of, mock.patch.object(WordDropout, "__call__", failing_drop):
        run = Run.begin(config_of(size, "parser.network.dropout=0.3", GRAPHS.format("true")), device)
        with counted_replays() as replays:
            for number in (1, 2):
                report(training=f"epoch {number}", became=outcome(run.epoch), replays=len(replays))


if __name__ == "__main__":
    main()
