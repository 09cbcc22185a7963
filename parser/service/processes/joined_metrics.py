"""The metrics of all processes in one answer.

Each process tells the others its own, and whichever is asked joins them, with a label `process`. In the
multiprocess mode of prometheus_client, gauges would not be asked when somebody looks but written at each
change, memory would be missing, files of processes that are long dead would be read each time, and a full
disk would kill the process that writes into a mapped file.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from prometheus_client import Metric, generate_latest
from prometheus_client.parser import text_string_to_metric_families

LABEL = "process"
SECONDS = 1.0
"""In which a process tells its metrics. Those of others are missing."""


class JoinedMetrics:
    def __init__(self, folder: Path, number: int):
        """folder: where the sockets of all processes are, each with its number as its name. number: ours."""
        self._folder, self._path = folder, folder / str(number)

    @asynccontextmanager
    async def told(self, own: Callable[[], Awaitable[bytes]]) -> AsyncGenerator[None, None]:
        """Inside the block the others can ask for ours."""

        async def tell(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(await own())
            writer.close()

        self._path.unlink(missing_ok=True)  # of a process that was killed
        async with await asyncio.start_unix_server(tell, self._path):
            yield

    async def text(self) -> bytes:
        """Those of all processes that answer."""
        paths = sorted(self._folder.iterdir())
        texts = await asyncio.gather(*map(_ask, paths))
        found = {path.name: text for path, text in zip(paths, texts, strict=True) if text}
        return await asyncio.to_thread(joined, found)


async def _ask(path: Path) -> str:
    """Empty if nobody answers."""
    try:
        async with asyncio.timeout(SECONDS):
            reader, writer = await asyncio.open_unix_connection(path)
            try:
                return (await reader.read()).decode()
            finally:
                writer.close()
    except OSError:  # which TimeoutError is
        return ""


def joined(texts: Mapping[str, str]) -> bytes:
    """Metrics by process, in the format of Prometheus, as one text."""
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
