"""What operators see of the service: liveness, readiness, and the metrics for Prometheus.

See https://prometheus.io/docs/instrumenting/exposition_formats. Nothing here waits for parsing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from http import HTTPStatus
from time import monotonic
from types import SimpleNamespace

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse, Response
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Metric,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily
from prometheus_client.parser import text_string_to_metric_families

from parser.parsing.engine import EngineLoad
from parser.parsing.engine_thread import EngineThread
from parser.service.limits import STOPPING, Admission
from parser.service.questions import Questions
from parser.service.request_record import RequestRecord
from parser.service.served_models import ServedModel
from parser.system.version import __version__

LIVE, READY, METRICS = "/live", "/ready", "/metrics"
SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds of the buckets of a histogram."""
SECONDS_BETWEEN_LOOKS = 0.1
"""The time after which the event loop is looked at again."""
LABEL = "process"


def operation_routes(admission: Admission, metrics: Metrics | JoinedMetrics) -> APIRouter:
    router = APIRouter(tags=["operation"], default_response_class=PlainTextResponse)

    @router.get(LIVE, summary="Whether the process responds")
    async def live() -> str:
        return "live"

    @router.get(READY, summary="Whether the service accepts requests; 503 if it is being stopped")
    async def ready() -> PlainTextResponse:
        if admission.drains:
            return PlainTextResponse(STOPPING, HTTPStatus.SERVICE_UNAVAILABLE)
        return PlainTextResponse("ready")

    @router.get(METRICS, summary="Metrics for Prometheus")
    async def prometheus() -> Response:
        return Response(await metrics.text(), media_type=CONTENT_TYPE_LATEST)

    return router


class Metrics:
    def __init__(self, models: Iterable[ServedModel], admission: Admission):
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
        ProcessCollector(registry=registry)  # memory, processor time and open files

        def watch(name: str, text: str, value: Callable[[EngineLoad], float]) -> None:
            """Read the load of the engines whenever the metrics are requested."""

            def value_of(thread: EngineThread) -> float:
                return value(thread.load)

            gauge = Gauge(f"stack_parser_{name}", text, ["model"], registry=registry)
            for model in models:
                gauge.labels(model.name).set_function(partial(value_of, model.thread))

        watch("waiting_sentences", "Sentences that wait", lambda load: load.waiting)
        watch("waiting_words", "Words that wait", lambda load: load.waiting_words)
        watch("batch_fill", "Share of the batch that is used", lambda load: load.running / load.batch_size)
        watch("batch_size", "Most sentences of a batch", lambda load: load.batch_size)
        self._lag = Histogram(
            "stack_parser_loop_lag_seconds",
            "Time by which the event loop runs late",
            registry=registry,
            buckets=SECONDS,
        )
        identity = Gauge(
            "stack_parser_model_info", "1 for each model", ["model", "digest"], registry=registry
        )
        for model in models:
            identity.labels(model.name, model.digest).set(1)
        build = Gauge("stack_parser_build_info", "1 for the program", ["version"], registry=registry)
        build.labels(__version__).set(1)
        registry.register(_Counted(models, admission))

    def add(self, record: RequestRecord) -> None:
        self._requests.labels(record.path, str(record.status), record.outcome).inc()
        self._seconds.labels(record.path).observe(record.seconds)
        if record.model:
            self._sentences.labels(record.model).inc(record.sentences)
            self._words.labels(record.model).inc(record.words)
        if record.first_tree is not None:
            self._first.labels(record.model).observe(record.first_tree)

    @asynccontextmanager
    async def watches_loop(self) -> AsyncIterator[None]:
        """Measure inside the `async with` block how late the event loop runs what is due."""

        async def watch() -> None:
            while True:
                due = monotonic() + SECONDS_BETWEEN_LOOKS
                await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
                self._lag.observe(max(0.0, monotonic() - due))

        watching = asyncio.create_task(watch())
        try:
            yield
        finally:
            watching.cancel()

    async def text(self) -> bytes:
        """Return the metrics in the text format of Prometheus."""
        return generate_latest(self._registry)


class _Counted:
    """The metrics that the engines and the admission count themselves, without labels of requests."""

    def __init__(self, models: Iterable[ServedModel], admission: Admission):
        self._models, self._admission = models, admission

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics, as prometheus_client asks for them."""
        batches = CounterMetricFamily("stack_parser_batches", "Parsed batches", labels=["model"])
        inside = CounterMetricFamily("stack_parser_batch_sentences", "Sentences in batches", labels=["model"])
        for model in self._models:
            load = model.thread.load
            batches.add_metric([model.name], load.batches)
            inside.add_metric([model.name], load.in_batches)
        refused = CounterMetricFamily(
            "stack_parser_refused_requests",
            "Requests refused when others wait",
            labels=["reason"],
        )
        for reason, requests in self._admission.refused.items():
            refused.add_metric([reason], requests)
        yield from (batches, inside, refused)


class JoinedMetrics:
    """The metrics of all processes in one answer.

    Each process sends its own metrics to the others on request. The process that is scraped joins the metrics
    of all and adds a label `process`. In the multiprocess mode of prometheus_client, gauges would be written
    at each change instead of read at each scrape, memory would be missing, the files of processes that died
    long ago would be read each time, and a full disk would kill the process that writes into a mapped file.
    """

    def __init__(self, questions: Questions):
        self._questions = questions

    def told(self, metrics: Callable[[], Awaitable[bytes]]) -> AbstractAsyncContextManager[None]:
        """Answer the other processes with the metrics of this one inside the `async with` block."""
        return self._questions.answered(metrics)

    async def text(self) -> bytes:
        """Return the joined metrics of all processes that answer in time."""
        return await asyncio.to_thread(joined, await self._questions.ask_all())


def joined(texts: Mapping[str, str]) -> bytes:
    """Join texts in the Prometheus format, by process, into one text in the same format."""
    metrics: dict[str, Metric] = {}
    for process, text in texts.items():
        for family in text_string_to_metric_families(text):
            metric = metrics.setdefault(family.name, Metric(family.name, family.documentation, family.type))
            for sample in family.samples:
                metric.samples.append(sample._replace(labels={LABEL: process, **sample.labels}))
    return generate_latest(SimpleNamespace(collect=metrics.values))
