"""The metrics of all processes in one answer.

Each process sends its own metrics to the others on request. The process that is scraped joins the metrics
of all and adds a label `process`. In the multiprocess mode of prometheus_client, gauges would be written at
each change instead of read at each scrape, memory would be missing, the files of processes that died long
ago would be read each time, and a full disk would kill the process that writes into a mapped file.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager

from prometheus_client import Metric, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from parser.service.processes.questions import Questions

LABEL = "process"


class JoinedMetrics:
    def __init__(self, questions: Questions):
        self._questions = questions

    def told(self, own: Callable[[], Awaitable[bytes]]) -> AbstractAsyncContextManager[None]:
        """Answer the other processes with the metrics of this one inside the `async with` block."""
        return self._questions.answered(own)

    async def text(self) -> bytes:
        """Return the joined metrics of all processes that answer in time."""
        return await asyncio.to_thread(joined, await self._questions.ask_all())


def joined(texts: Mapping[str, str]) -> bytes:
    """Join texts in the Prometheus format, by process, into one text in the same format."""
    return generate_latest(_Joined(texts))


class _Joined:
    def __init__(self, texts: Mapping[str, str]):
        self._texts = texts

    def collect(self) -> Iterable[Metric]:
        metrics: dict[str, Metric] = {}
        for process, text in self._texts.items():
            for told in text_string_to_metric_families(text):
                metric = metrics.setdefault(told.name, Metric(told.name, told.documentation, told.type))
                for sample in told.samples:
                    metric.samples.append(sample._replace(labels={LABEL: process, **sample.labels}))
        return metrics.values()
