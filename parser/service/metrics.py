"""The metrics for Prometheus: https://prometheus.io/docs/instrumenting/exposition_formats."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

from parser.parsing.engine import Engine, EngineLoad
from parser.service.admission import Admission
from parser.service.request_record import RequestRecord
from parser.service.served_models import ServedModels

SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds of the buckets of a histogram."""


class Metrics:
    def __init__(self, models: ServedModels, admission: Admission):
        self._registry = registry = CollectorRegistry()
        self._requests = Counter(
            "stack_parser_requests", "Requests", ["path", "status", "outcome"], registry=registry
        )
        self._seconds = Histogram(
            "stack_parser_request_seconds", "Time of a request", ["path"], registry=registry, buckets=SECONDS
        )
        self._first = Histogram(
            "stack_parser_first_tree_seconds",
            "Time to the first tree",
            ["model"],
            registry=registry,
            buckets=SECONDS,
        )
        self._sentences = Counter("stack_parser_sentences", "Parsed sentences", ["model"], registry=registry)
        self._words = Counter("stack_parser_words", "Parsed words", ["model"], registry=registry)
        running = Gauge("stack_parser_running_requests", "Requests that are parsed", registry=registry)
        running.set_function(lambda: admission.running)
        self._watch(models)
        ProcessCollector(registry=registry)  # memory, processor time and open files

    def _watch(self, models: ServedModels) -> None:
        """Read the load of the engines whenever the metrics are requested."""

        def add(name: str, text: str, value: Callable[[EngineLoad], float]) -> None:
            gauge = Gauge(f"stack_parser_{name}", text, ["model"], registry=self._registry)
            for model in models:
                gauge.labels(model.name).set_function(partial(_value_of, model.engine, value))

        add("waiting_sentences", "Sentences that wait", lambda load: load.waiting)
        add("waiting_words", "Words that wait", lambda load: load.waiting_words)
        add("batch_fill", "Share of the batch that is used", lambda load: load.running / load.batch_size)

    def add(self, record: RequestRecord) -> None:
        """Count a finished request."""
        self._requests.labels(record.path, str(record.status), record.outcome).inc()
        self._seconds.labels(record.path).observe(record.seconds)
        if record.model:
            self._sentences.labels(record.model).inc(record.sentences)
            self._words.labels(record.model).inc(record.words)
        if record.first_tree is not None:
            self._first.labels(record.model).observe(record.first_tree)

    async def text(self) -> bytes:
        """Return the metrics in the text format of Prometheus."""
        return generate_latest(self._registry)


def _value_of(engine: Engine, value: Callable[[EngineLoad], float]) -> float:
    return value(engine.load)
