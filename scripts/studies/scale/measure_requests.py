"""Measure an engine that sentences join at any time: many clients, and a short one beside a large one.

python scripts/studies/scale/measure_requests.py MODEL FILE.conllu [--turns 5] [--sentences 10000] \\
    [--device cpu]

All is measured in turns, and ratios are medians over the turns with 95 % intervals:

1. 64 threads, and 64 tasks of asyncio, each of which hands in one sentence after the other, over `parse` with
   batches of 64.
2. A sentence of 19 words beside a document: its time over that alone, and how many steps of the batch the
   difference is; the speed of the document over that alone, when such sentences come one after the other.
3. The time to the first tree of a stream of 100,000 sentences over that of a single sentence.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import NamedTuple

import torch

sys.path.insert(0, str(Path(__file__).parents[2]))  # what scripts share

from measuring import in_turns, per_second, speeds_in_turns

from parser.parsing.engine import Engine
from parser.parsing.engine_thread import EngineThread
from parser.parsing.ensemble import ModelChoice, load_models
from parser.parsing.model import Model
from parser.parsing.parse import parse
from parser.parsing.scheduler import RequestSource
from parser.speed.measuring.statistics import median_of, ratio_of
from parser.system.machine import choose_device, tune_process
from parser.treebank.conllu import read_treebank
from parser.treebank.sentence import Sentence

CLIENTS = 64
WORDS = 19
"""Of the sentence beside the document."""
STREAMED = 100_000
"""Sentences of the stream whose first tree is awaited."""
ALONE = 30
"""Times that the single sentence is parsed alone."""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("model", type=Path)
    options.add_argument("treebank", help="its sentences are repeated")
    options.add_argument("--sentences", type=int, default=10_000, help="of the document")
    options.add_argument("--turns", type=int, default=5)
    options.add_argument("--device", default="cpu")
    given = options.parse_args()
    tune_process()
    torch.set_num_threads(1)
    model = load_models(ModelChoice((given.model,), None), choose_device(given.device))
    sentences = read_treebank(given.treebank)
    document = list(islice(cycle(sentences), given.sentences))
    measure_clients(model, document, given.turns)
    single = next(sentence for sentence in sentences if len(sentence) == WORDS)
    measure_beside(model, document, single, given.turns)
    measure_first_tree(model, sentences, single, given.turns)


def measure_clients(model: Model, sentences: Sequence[Sentence], turns: int) -> None:
    """Print what clients that hand in one sentence at a time reach of the speed of batches."""
    work: dict[str, Callable[[], object]] = {
        f"batches of {CLIENTS}": lambda: parse(model, sentences, CLIENTS),
        f"{CLIENTS} threads": lambda: by_threads(model, sentences),
        f"{CLIENTS} tasks": lambda: asyncio.run(by_tasks(model, sentences)),
    }
    speeds = speeds_in_turns(
        {name: partial(per_second, partial(_counted, run, len(sentences))) for name, run in work.items()},
        turns,
        warm_up=1,
    )
    batches, *others = speeds
    for name in others:
        print(f"{name} over {batches}: {ratio_of(speeds[name], speeds[batches], interleaved=True)}")


def _counted(run: Callable[[], object], count: int) -> int:
    run()
    return count


def by_threads(model: Model, sentences: Sequence[Sentence]) -> None:
    """Each hands in every 64th sentence, when it has the tree of the one before."""

    def hand_in(own: Sequence[Sentence]) -> None:
        for sentence in own:
            engine.result(engine.add(sentence))

    with EngineThread(Engine(model, CLIENTS)) as engine:
        threads = [
            threading.Thread(target=hand_in, args=(sentences[first::CLIENTS],)) for first in range(CLIENTS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


async def by_tasks(model: Model, sentences: Sequence[Sentence]) -> None:
    """As `by_threads`."""

    async def hand_in(own: Sequence[Sentence]) -> None:
        for sentence in own:
            await engine.parse(sentence)

    with EngineThread(Engine(model, CLIENTS)) as engine:
        await asyncio.gather(*(hand_in(sentences[first::CLIENTS]) for first in range(CLIENTS)))


class WatchedEngine(Engine):
    """Keeps how long its steps take."""

    def __init__(self, model: Model):
        super().__init__(model)
        self.steps: list[float] = []
        """In seconds."""

    def step(self, *given: object) -> None:
        began = time.perf_counter()
        super().step(*given)  # type: ignore[arg-type]
        self.steps.append(time.perf_counter() - began)


class Latencies(NamedTuple):
    """In seconds."""

    of_single: list[float]
    of_steps: list[float]
    of_document: float


def measure_beside(model: Model, document: Sequence[Sentence], single: Sentence, turns: int) -> None:
    """Print what a single sentence and a document lose by each other."""
    work: dict[str, Callable[[], Latencies]] = {
        "alone": lambda: asyncio.run(single_alone(model, single)),
        "document": lambda: asyncio.run(document_alone(model, document)),
        "beside": lambda: asyncio.run(beside(model, document, single)),
    }
    of_turns = list(in_turns(work, turns))
    for name in ("alone", "beside"):
        found = [seconds for turn in of_turns for seconds in turn[name].of_single]
        print(f"a sentence of {WORDS} words {name}: {_milliseconds(found)}")
    print(f"a step of the batch: {_milliseconds([s for turn in of_turns for s in turn['beside'].of_steps])}")
    alone = [_median(turn["alone"].of_single) for turn in of_turns]
    steps = [_median(turn["beside"].of_steps) for turn in of_turns]
    for name, choose in (("median", _median), ("worst", max)):
        there = [choose(turn["beside"].of_single) for turn in of_turns]
        late = [(one - other) / step for one, other, step in zip(there, alone, steps, strict=True)]
        print(f"beside a document, {name}: {ratio_of(there, alone, True)} times that alone", end="")
        print(f", later by {median_of(late)} steps of the batch")
    whole, disturbed = ([turn[name].of_document for turn in of_turns] for name in ("document", "beside"))
    print(f"speed of the document beside such sentences: {ratio_of(whole, disturbed, True)} of that alone")


async def single_alone(model: Model, single: Sentence) -> Latencies:
    with EngineThread(Engine(model)) as engine:
        await engine.parse(single)  # which prepares what the next ones use
        return Latencies([await _seconds(engine.parse(single)) for _ in range(ALONE)], [], 0.0)


async def document_alone(model: Model, document: Sequence[Sentence]) -> Latencies:
    with EngineThread(Engine(model)) as engine:
        return Latencies([], [], await _seconds(_parse_document(engine, document)))


async def beside(model: Model, document: Sequence[Sentence], single: Sentence) -> Latencies:
    """A client hands in the single sentence again and again, until the document is parsed."""
    watched = WatchedEngine(model)
    found = []
    with EngineThread(watched) as engine:
        whole = asyncio.create_task(_seconds(_parse_document(engine, document)))
        await asyncio.sleep(0)
        source = RequestSource()
        while not whole.done():
            found.append(await _seconds(engine.parse(single, source=source)))
        return Latencies(found, watched.steps, whole.result())


async def _parse_document(engine: EngineThread, document: Sequence[Sentence]) -> None:
    source = RequestSource()
    await asyncio.gather(*(engine.parse(sentence, source=source) for sentence in document))


async def _seconds(work: Awaitable[object]) -> float:
    began = time.perf_counter()
    await work
    return time.perf_counter() - began


def measure_first_tree(model: Model, sentences: Sequence[Sentence], single: Sentence, turns: int) -> None:
    """Print how soon the first tree of a stream comes, whose first sentence is `single`."""

    def stream() -> Iterator[Sentence]:
        yield single
        yield from islice(cycle(sentences), STREAMED - 1)

    def first_tree(given: Callable[[], Iterator[Sentence]]) -> float:
        engine, began = Engine(model), time.perf_counter()
        trees = engine.stream(given())
        next(trees)
        seconds = time.perf_counter() - began
        trees.close()  # type: ignore[attr-defined]
        return seconds

    work = {"stream": lambda: first_tree(stream), "single": lambda: first_tree(lambda: iter([single]))}
    of_turns = list(in_turns(work, turns))
    streamed, alone = ([turn[name] for turn in of_turns] for name in work)
    print(f"first tree of a stream of {STREAMED:,} sentences: {_milliseconds(streamed)}", end="")
    print(f", {ratio_of(streamed, alone, True)} times that of a single sentence")


def _median(seconds: Sequence[float]) -> float:
    return median_of(seconds).value


def _milliseconds(seconds: Sequence[float]) -> str:
    return f"median {1000 * _median(seconds):,.1f} ms, worst {1000 * max(seconds):,.1f} ms"


if __name__ == "__main__":
    main()
