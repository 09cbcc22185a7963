"""Metrics of several processes in one text."""

import asyncio
import os
from contextlib import closing, contextmanager

import pytest

pytest.importorskip("prometheus_client")

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from parser.service import questions
from parser.service.operation import JoinedMetrics, joined
from parser.service.questions import QuestionPairs, Questions


def metrics_of(number):
    registry = CollectorRegistry()
    Counter("words", "Parsed words", ["model"], registry=registry).labels('a"b').inc(number)
    Gauge("fill", "Of the batch", registry=registry).set(number / 2)
    Histogram("seconds", "Time", registry=registry, buckets=(1.0, 2.0)).observe(number)
    return generate_latest(registry).decode()


def samples_of(text):
    return {line for line in text.splitlines() if not line.startswith("#") and "_created" not in line}


EXPECTED = {
    f'{name}{{{labels}process="{process}"}} {value}'
    for process, values in {"1": (1.0, 0.5, 1.0, 1.0), "2": (2.0, 1.0, 0.0, 1.0)}.items()
    for name, labels, value in [
        ("words_total", 'model="a\\"b",', values[0]),
        ("fill", "", values[1]),
        ("seconds_bucket", 'le="1.0",', values[2]),
        ("seconds_bucket", 'le="2.0",', values[3]),
        ("seconds_bucket", 'le="+Inf",', 1.0),
        ("seconds_count", "", 1.0),
        ("seconds_sum", "", float(process)),
    ]
}


def test_each_sample_has_the_label_of_its_process():
    text = joined({"1": metrics_of(1), "2": metrics_of(2)}).decode()
    assert samples_of(text) == EXPECTED
    assert text.count("# TYPE words_total counter\n") == 1


@pytest.fixture
def pairs():
    with QuestionPairs(3) as pairs:
        yield pairs


@contextmanager
def process(pairs, number):
    """The joined metrics of the process with this number, and the context in which it answers."""
    with closing(Questions([*map(os.dup, pairs.asking)], os.dup(pairs.answering(number)))) as asked:
        metrics = JoinedMetrics(asked)
        yield metrics, metrics.told(lambda: asyncio.sleep(0, metrics_of(number).encode()))


async def test_processes_that_do_not_answer_are_left_out(pairs):
    with process(pairs, 1) as (one, tells_one), process(pairs, 2) as (two, tells_two):
        async with tells_one, tells_two:
            assert samples_of((await one.text()).decode()) == EXPECTED
            with process(pairs, 3) as (_, tells_three):  # it has been asked before it was there
                async with tells_three:
                    assert 'fill{process="3"} 1.5' in samples_of((await two.text()).decode())


def test_one_that_never_answers_may_be_asked_again_and_again(pairs, monkeypatch):
    monkeypatch.setattr(questions, "SECONDS", 0.001)

    async def ask():
        with process(pairs, 1) as (one, tells_one):
            async with tells_one:
                for _ in range(100):  # more than fit
                    await one.text()
                monkeypatch.setattr(questions, "SECONDS", 60)
                asked = asyncio.create_task(one.text())
                with process(pairs, 2) as (_, tells_two), process(pairs, 3) as (_, tells_three):
                    async with tells_two, tells_three:
                        await asked

    before = set(os.listdir("/proc/self/fd"))
    asyncio.run(ask())
    assert set(os.listdir("/proc/self/fd")) == before
