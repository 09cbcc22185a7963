"""Metrics of several processes in one text."""

import asyncio

import pytest

pytest.importorskip("prometheus_client")

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from parser.service.processes.joined_metrics import JoinedMetrics, joined


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


def test_processes_that_do_not_answer_are_left_out(tmp_path):
    async def ask():
        one, two, dead = (JoinedMetrics(tmp_path, number) for number in (1, 2, 3))

        async def text_of(number):
            return metrics_of(number).encode()

        (tmp_path / "3").touch()  # as one that was killed leaves it
        async with one.told(lambda: text_of(1)), two.told(lambda: text_of(2)):
            assert samples_of((await one.text()).decode()) == EXPECTED
            async with dead.told(lambda: text_of(3)):  # another one in its place
                assert 'fill{process="3"} 1.5' in samples_of((await two.text()).decode())

    asyncio.run(ask())
