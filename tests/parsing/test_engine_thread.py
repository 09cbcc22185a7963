"""Threads and tasks that wait for trees, cancel, fail or are abandoned, compared with `parse`."""

import asyncio
import gc
import os
import subprocess
import sys
import threading
from concurrent.futures import CancelledError
from queue import Full
from random import Random

import psutil
import pytest
import torch
from extended import extended
from hypothesis import given
from hypothesis import strategies as st
from plain_parser import sentence
from random_parsers import RUNNERS, model, refuse_bad_words, run_by
from random_parsers import numbered_sentence as of

from parser.parsing.engine import Engine, parse
from parser.parsing.engine_thread import AwaitedRequest, EngineThread
from parser.parsing.options import ParseOptions
from parser.parsing.scheduler import RequestSource

SECONDS = 120
"""Whatever has little to do and takes longer hangs."""
CANCELLED = CancelledError | asyncio.CancelledError
BAD = sentence((0, 1), forms=["word0", "bad"])


@pytest.fixture(scope="module")
def parser():
    torch.manual_seed(0)
    return model("arc-eager", dtype=torch.double, word_features=True)


@pytest.fixture
def gate(monkeypatch):
    """The engine computes only when this event is set."""
    step, opened = Engine.step, threading.Event()

    def step_later(*given):
        opened.wait()
        step(*given)

    monkeypatch.setattr(Engine, "step", step_later)
    yield opened
    opened.set()


def run_all(work, seconds=SECONDS):
    """Run every function in its own thread."""
    threads = [threading.Thread(target=each) for each in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds)
        assert not thread.is_alive()


WISHES = st.fixed_dictionaries(
    {
        "length": st.integers(0, 12),  # 0: it fails
        "probabilities": st.booleans(),
        "source": st.integers(0, 2),
        "turns": st.integers(0, 5),  # of the event loop before it arrives
        "patience": st.one_of(st.none(), st.integers(0, 20)),  # turns after which it is cancelled
    }
)


@given(
    of_threads=st.lists(st.lists(WISHES, max_size=6), max_size=3),
    of_loops=st.lists(st.lists(WISHES, max_size=12), max_size=2),
    batch_size=st.integers(1, 5),
    runner=st.sampled_from([*RUNNERS]),
    max_waiting=st.integers(1, 60),
)
def test_nothing_is_lost_swapped_or_left_hanging(
    parser, of_threads, of_loops, batch_size, runner, max_waiting
):
    with pytest.MonkeyPatch.context() as patched:
        run_by(patched, runner)
        refuse_bad_words(patched)
        with EngineThread(Engine(parser, batch_size, max_waiting)) as engine:
            clients = Clients(engine, [*of_threads, *of_loops])
            work = [lambda own=own: clients.hand_in(own) for own in of_threads]
            work += [lambda own=own: asyncio.run(clients.hand_in_as_tasks(own)) for own in of_loops]
            run_all(work)
    clients.check(parser)


class Clients:
    """What clients want, and what they get."""

    def __init__(self, engine, wishes):
        self.engine, self.sources = engine, [None, RequestSource(), RequestSource(3)]
        self.wishes = [wish for own in wishes for wish in own]
        self.found = {}
        for number, wish in enumerate(self.wishes):
            wish["sentence"] = of(number, wish["length"]) if wish["length"] else BAD

    def arguments(self, wish):
        return (
            wish["sentence"],
            ParseOptions(probabilities=wish["probabilities"]),
            self.sources[wish["source"]],
        )

    def hand_in(self, wishes):
        requests = [self.engine.add(*self.arguments(wish)) for wish in wishes]
        for wish, request in zip(wishes, requests, strict=True):
            if wish["patience"] is not None:
                request.cancel()
        for wish, request in zip(wishes, requests, strict=True):
            try:
                self.found[id(wish)] = self.engine.result(request)
            except (CancelledError, RuntimeError) as error:
                self.found[id(wish)] = error

    async def hand_in_as_tasks(self, wishes):
        await asyncio.wait_for(asyncio.gather(*map(self._task, wishes)), SECONDS)

    async def _task(self, wish):
        await turns(wish["turns"])
        task = asyncio.create_task(self.engine.parse(*self.arguments(wish)))
        if wish["patience"] is not None:
            await turns(wish["patience"])
            task.cancel()
        try:
            self.found[id(wish)] = await task
        except (asyncio.CancelledError, RuntimeError) as error:
            self.found[id(wish)] = error

    def check(self, parser):
        """Check that they got what `parse` gives."""
        assert len(self.found) == len(self.wishes)
        good = [wish["sentence"] for wish in self.wishes if wish["length"]]
        expected = iter(parse(parser, good, options=ParseOptions(probabilities=True)))
        for wish in self.wishes:
            found = self.found[id(wish)]
            alone = next(expected) if wish["length"] else None
            if isinstance(found, CANCELLED):
                assert wish["patience"] is not None
            elif alone is None:
                assert str(found) == "no such word"
            else:
                assert (found.heads, found.labels) == (alone.heads, alone.labels)
                probabilities = pytest.approx(alone.probabilities, rel=1e-5)
                assert found.probabilities == (probabilities if wish["probabilities"] else None)


async def turns(count):
    for _ in range(count):
        await asyncio.sleep(0)


def test_an_event_loop_is_woken_up_once_for_the_trees_of_a_step(parser, monkeypatch):
    step, steps, calls = Engine.step, [], []
    monkeypatch.setattr(Engine, "step", lambda *given: steps.append(step(*given)))

    async def parse_all(engine, sentences):
        loop = asyncio.get_running_loop()
        call = loop.call_soon_threadsafe
        monkeypatch.setattr(loop, "call_soon_threadsafe", lambda *given: calls.append(call(*given)))
        return await asyncio.gather(*map(engine.parse, sentences))

    sentences = [of(number, 5) for number in range(300)]
    with EngineThread(Engine(parser)) as engine:
        assert asyncio.run(parse_all(engine, sentences)) == parse(parser, sentences)
    assert len(calls) <= len(steps) < 100


def test_a_full_engine_refuses_or_lets_wait(parser, gate):
    sentences = [of(number, 12) for number in range(9)]

    async def hand_in(engine):
        first = asyncio.create_task(engine.parse(sentences[0]))
        await turns(1)
        with pytest.raises(Full, match="12 words wait already"):
            await engine.parse(sentences[1], wait=False)
        others = [asyncio.create_task(engine.parse(each)) for each in sentences[1:]]
        await turns(1)
        with pytest.raises(Full, match="8 sentences wait"):
            await engine.parse(sentences[1], wait=False)
        others[3].cancel()
        gate.set()
        return await asyncio.gather(first, *others, return_exceptions=True)

    with EngineThread(Engine(parser, batch_size=2, max_waiting=20)) as engine:
        found = asyncio.run(hand_in(engine))
        requests = []
        run_all([lambda: requests.extend(map(engine.add, sentences))])
        assert list(map(engine.result, requests)) == parse(parser, sentences)
    assert isinstance(found.pop(4), asyncio.CancelledError)
    assert found == parse(parser, sentences[:4] + sentences[5:])


def test_closing_parses_what_waits(parser, gate):
    engine = EngineThread(Engine(parser))
    requests = [engine.add(of(number, 5)) for number in range(40)]
    engine.close(join=False)
    with pytest.raises(RuntimeError, match="closed"):
        engine.add(of(0, 5))
    gate.set()
    engine.close()
    assert all(request.has_ended for request in requests)
    assert list(map(engine.result, requests)) == parse(parser, [each.sentence for each in requests])


def test_closing_cancels_what_waits(parser, gate):
    engine = EngineThread(Engine(parser, max_waiting=20))
    errors = []

    def hand_in(number):
        try:
            engine.result(engine.add(of(number, 12)))
        except (CancelledError, RuntimeError) as error:
            errors.append(error)

    async def wait_for_trees():
        tasks = [asyncio.create_task(engine.parse(of(number, 12))) for number in range(5)]
        await turns(1)
        engine.close(cancel=True, join=False)
        gate.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    tasks = threading.Thread(target=lambda: errors.extend(asyncio.run(wait_for_trees())))
    run_all([*(lambda number=number: hand_in(number) for number in range(3)), tasks.run])
    engine.close()
    assert len(errors) == 8  # those that came after it was closed get an error
    assert {type(error) for error in errors} <= {CancelledError, RuntimeError}
    assert any(isinstance(error, CancelledError) for error in errors)


def test_the_thread_also_reads_and_writes(parser, gate, monkeypatch):
    """Each input fails alone, in reading, in parsing or in writing."""
    refuse_bad_words(monkeypatch)
    inputs = [[of(number, length) for number in range(length)] for length in (3, 0, 5)]
    threads = set()

    def read(sentences):
        threads.add(threading.current_thread().name)
        yield from sentences

    def write(trees):
        threads.add(threading.current_thread().name)
        return trees

    async def run_several():
        tasks = [asyncio.create_task(engine.run(lambda one=one: read(one), write)) for one in inputs]
        tasks += [asyncio.create_task(engine.run(lambda: [of(1, 5), BAD], write))]
        tasks += [asyncio.create_task(engine.run(lambda: map(int, "a"), write))]
        tasks += [asyncio.create_task(engine.run(lambda: [of(1, 5)], lambda trees: trees[1]))]
        left = asyncio.create_task(engine.run(lambda: [of(1, 5)], write))
        await turns(1)
        left.cancel()
        gate.set()
        return await asyncio.gather(*tasks, left, return_exceptions=True)

    with EngineThread(Engine(parser)) as engine:
        *found, of_bad, of_read, of_write, of_left = asyncio.run(run_several())
    assert found == [parse(parser, each) for each in inputs]
    errors = [RuntimeError, ValueError, IndexError, asyncio.CancelledError]
    assert list(map(type, (of_bad, of_read, of_write, of_left))) == errors
    assert threads == {"engine"}


def test_what_waits_to_be_read_is_part_of_the_load(parser, gate):
    async def run_several():
        tasks = [asyncio.create_task(engine.run(lambda: [of(1, 5)], list)) for _ in range(3)]
        while engine.load.waiting < 4:
            await asyncio.sleep(0.01)
        gate.set()
        await asyncio.gather(*tasks)
        return engine.load.waiting

    with EngineThread(Engine(parser)) as engine:
        engine.add(of(0, 5))
        assert asyncio.run(run_several()) == 0


@pytest.mark.parametrize("has_begun", [False, True])
def test_closing_cancels_what_the_thread_would_read(parser, gate, has_begun):
    async def run_several():
        first = asyncio.create_task(engine.run(lambda: [of(0, 5)], list))
        while has_begun and not engine._begun:
            await asyncio.sleep(0.01)
        engine.close(cancel=True, join=False)
        gate.set()
        with pytest.raises(RuntimeError, match="closed"):
            await engine.run(lambda: [of(0, 5)], list)
        with pytest.raises(CancelledError if has_begun else RuntimeError):
            await first

    engine = EngineThread(Engine(parser))
    asyncio.run(run_several())
    engine.close()


def test_an_error_of_the_engine_reaches_all_inputs(parser, monkeypatch):
    step = Engine.step

    def fail(engine):
        raise MemoryError("too small")

    async def run_one():
        return await engine.run(lambda: [of(3, 7)], list)

    with EngineThread(Engine(parser)) as engine:
        monkeypatch.setattr(Engine, "step", fail)
        with pytest.raises(RuntimeError, match=r"the engine failed.*too small"):
            asyncio.run(run_one())
        monkeypatch.setattr(Engine, "step", step)
        assert asyncio.run(run_one()) == parse(parser, [of(3, 7)])


def test_a_context_with_an_error_cancels_what_waits(parser, gate):
    requests = []

    def fail():
        with EngineThread(Engine(parser)) as engine:
            requests.append(engine.add(of(0, 5)))
            gate.set()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert requests[0].has_ended


def test_an_error_of_the_engine_reaches_all_who_wait(parser, monkeypatch):
    step, failing = Engine.step, threading.Event()

    def fail(engine):
        failing.wait()
        raise MemoryError("too small")

    monkeypatch.setattr(Engine, "step", fail)
    with EngineThread(Engine(parser, max_waiting=20)) as engine:

        async def wait_for_trees():
            tasks = [asyncio.create_task(engine.parse(of(number, 12))) for number in range(5)]
            await turns(1)
            failing.set()
            return await asyncio.gather(*tasks, return_exceptions=True)

        request = engine.add(of(0, 12))
        for error in asyncio.run(wait_for_trees()):
            assert isinstance(error, RuntimeError)
            assert isinstance(error.__cause__, MemoryError)
        with pytest.raises(RuntimeError, match=r"the engine failed.*too small"):
            engine.result(request)
        monkeypatch.setattr(Engine, "step", step)
        assert engine.result(engine.add(of(3, 7))) == parse(parser, [of(3, 7)])[0]


def test_an_engine_that_always_fails_tells_each_and_rests(parser, monkeypatch):
    steps = []

    def fail(engine):
        steps.append(engine)
        raise KeyError("a bug")

    monkeypatch.setattr(Engine, "step", fail)
    with EngineThread(Engine(parser)) as engine:
        for number in range(10):
            with pytest.raises(RuntimeError, match="a bug"):
                engine.result(engine.add(of(number, 3)))
    assert len(steps) <= 20


def test_a_thread_that_can_not_be_started_harms_one_request(parser, monkeypatch):
    def fail(thread):
        raise RuntimeError("can't start new thread")

    with EngineThread(Engine(parser)) as engine:
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", fail)
            with pytest.raises(RuntimeError, match="can't start new thread"):
                engine.add(of(0, 5))
        assert engine.result(engine.add(of(1, 5))) == parse(parser, [of(1, 5)])[0]


def test_a_loop_that_was_closed_harms_nobody(parser, gate):
    with EngineThread(Engine(parser)) as engine:
        loop = asyncio.new_event_loop()
        left = engine.parse(of(0, 5))
        loop.call_soon(left.send, None)
        loop.call_soon(loop.stop)
        loop.run_forever()
        loop.close()
        gate.set()
        assert engine.result(engine.add(of(1, 5))) == parse(parser, [of(1, 5)])[0]
    left.close()


def test_several_threads_wait_for_one_tree_and_another_cancels_it(parser, gate):
    with EngineThread(Engine(parser)) as engine:
        request, errors = engine.add(of(0, 5)), []

        def wait_for_tree():
            with pytest.raises(CancelledError):
                engine.result(request)
            errors.append(1)

        def cancel():
            request.cancel()
            gate.set()

        run_all([wait_for_tree, wait_for_tree, cancel])
    assert errors == [1, 1]


@pytest.mark.usefixtures("several_threads")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_forked_process_is_told_to_make_a_new_one(parser):
    expected = parse(parser, [of(3, 7)])
    with EngineThread(Engine(parser)) as engine:
        request = engine.add(of(3, 7))
        if not (child := os.fork()):
            os._exit(in_child(parser, engine, request, expected))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert [engine.result(request)] == expected


def in_child(parser, engine, request, expected):
    """Returns the exit status."""
    for call in (lambda: engine.add(of(3, 7)), lambda: engine.result(request)):
        with pytest.raises(RuntimeError, match="forked"):
            call()
    engine.close()
    with EngineThread(Engine(parser)) as own:
        return [own.result(own.add(of(3, 7)))] != expected


UNFINISHED = """
from pathlib import Path
from parser.models.loading import load_model
from parser.parsing.engine import Engine
from parser.parsing.engine_thread import EngineThread
from parser.treebank.conllu import read_treebank
engine = EngineThread(Engine(load_model(Path("tests/model"))))
requests = [engine.add(one) for one in read_treebank("data/quickstart/train.conllu")]
engine.result(requests[0])
"""


@pytest.mark.extended
def test_a_program_may_end_while_sentences_wait():
    done = subprocess.run([sys.executable, "-c", UNFINISHED], capture_output=True, text=True, timeout=SECONDS)
    assert (done.returncode, done.stderr) == (0, "")


def test_nothing_is_kept_of_what_has_ended(parser):
    before = requests_in_memory()
    with EngineThread(Engine(parser)) as engine:
        asyncio.run(parse_short(engine, 300))
        requests = [engine.add(of(number, 3)) for number in range(100)]
        for request in requests[::2]:
            request.cancel()
        list(map(engine.result, requests[1::2]))
    del requests, request
    assert requests_in_memory() == before


def requests_in_memory():
    gc.collect()
    return sum(type(each) is AwaitedRequest for each in gc.get_objects())


@pytest.mark.parametrize("sentences", [pytest.param(1_000_000, marks=pytest.mark.soak)])
def test_memory_does_not_grow(parser, sentences):
    process = psutil.Process()
    with EngineThread(Engine(parser)) as engine:
        asyncio.run(parse_short(engine, sentences // 10))
        before = process.memory_info().rss
        asyncio.run(parse_short(engine, sentences - sentences // 10))
        grown = process.memory_info().rss - before
    print(f"{before / 2**20:.1f} MiB after a tenth, {grown / 2**20:.2f} MiB more at the end")
    assert grown < 8 * 2**20  # nine bytes a sentence


async def parse_short(engine, count, clients=64):
    """Parse `count` short sentences, by tasks that each hand in one after the other."""

    async def hand_in(first):
        for number in range(first, count, clients):
            await engine.parse(of(number, 1 + number % 3))

    await asyncio.gather(*map(hand_in, range(clients)))


@pytest.mark.parametrize(
    ("cancelled", "failing"), [*extended((100, 10)), pytest.param(10_000, 1_000, marks=pytest.mark.soak)]
)
def test_many_that_cancel_and_fail(parser, monkeypatch, cancelled, failing):
    """Requests come from 64 tasks and 8 threads, and equally many others wait for their trees."""
    refuse_bad_words(monkeypatch)
    chosen = Random(1)
    patience = [chosen.randrange(100) for _ in range(cancelled)] + [None] * (cancelled + failing)
    wishes = [
        {
            "length": 0 if number < failing else chosen.randint(1, 12),
            "probabilities": chosen.random() < 0.5,
            "source": chosen.randrange(3),
            "turns": chosen.randrange(5),
            "patience": own,
        }
        for number, own in enumerate(reversed(patience))
    ]
    chosen.shuffle(wishes)
    of_threads = [wishes[thread : len(wishes) // 4 : 8] for thread in range(8)]
    of_tasks = [wishes[len(wishes) // 4 :][task::64] for task in range(64)]
    with EngineThread(Engine(parser, batch_size=64, max_waiting=200)) as engine:
        clients = Clients(engine, [*of_threads, *of_tasks])

        async def hand_in_one_after_the_other(own):
            for wish in own:
                await clients.hand_in_as_tasks([wish])

        async def hand_in_all():
            await asyncio.gather(*map(hand_in_one_after_the_other, of_tasks))

        work = [lambda own=own: clients.hand_in(own) for own in of_threads]
        run_all([*work, lambda: asyncio.run(hand_in_all())], seconds=SECONDS * len(wishes) // 100)
    clients.check(parser)
    caught = sum(isinstance(each, CANCELLED) for each in clients.found.values())
    assert cancelled // 4 < caught <= cancelled
