"""Measure running services that speak UDPipe's protocol: raw text to trees, one sentence per request.

python scripts/studies/scale/measure_service.py FILE NAME=ADDRESS… [--clients 32] [--rate R | --texts N] \\
    [--seconds 10] [--turns 5] [--pid PID…]

FILE has a sentence in each line. Services are measured in turns; numbers are medians over the turns with 95 %
intervals, and the first service is compared with the others.

Without --rate each client sends its next request when it has its answer. With --rate, R requests per second
are sent at random times (Poisson) over --clients connections, and latencies count from these times. With
--texts, only the first client sends single sentences, and is measured; the others send texts of N sentences.
--pid is the process of each service; its child processes count, too.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import cycle
from pathlib import Path
from random import Random
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

import numpy as np
import psutil

sys.path.insert(0, str(Path(__file__).parents[2]))  # modules shared by scripts

from measuring import in_turns

from parser.evaluation.statistics import median_of, ratio_of

END, CHUNKED, LENGTH = b"\r\n\r\n", b"transfer-encoding: chunked", re.compile(rb"(?i)content-length: *(\d+)")
LAST_CHUNK = b"\r\n0\r\n\r\n"
"""The end of a chunked answer; JSON never contains such line ends."""
LONGEST = 1 << 24
"""Bytes of an answer."""
PARTS = {"tokenizer": "", "tagger": "", "parser": "", "data": ""}
"""The parameters that make all parts of the service run."""
WARM_UP = 1.0
"""Seconds of load before each measurement, which do not count."""


class Service(NamedTuple):
    """The address of a service."""

    host: str
    port: int

    @classmethod
    def of(cls, address: str) -> Service:
        parts = urlsplit(address)
        if not (parts.hostname and parts.port):
            raise ValueError(f"{address}: should be http://HOST:PORT")
        return cls(parts.hostname, parts.port)

    def request(self, text: str) -> bytes:
        """The bytes of a request for the trees of a text."""
        body = urlencode(PARTS | {"data": text}).encode()
        head = f"POST /process HTTP/1.1\r\nHost: {self.host}:{self.port}\r\n"
        kind = f"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {len(body)}\r\n\r\n"
        return f"{head}{kind}".encode() + body


class Connection:
    """A connection with one request at a time. UDPipe's service closes it after each answer."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, request: bytes) -> bytes:
        """Send a request; returns the answer with its headers. Raises ValueError unless its status is 200."""
        if not self._streams or self._streams[0].at_eof():
            self._streams = await asyncio.open_connection(*self._service, limit=LONGEST)
        reader, writer = self._streams
        writer.write(request)
        head = await reader.readuntil(END)
        if CHUNKED in head.lower():
            answer = head + await reader.readuntil(LAST_CHUNK)
        elif length := LENGTH.search(head):
            answer = head + await reader.readexactly(int(length[1]))
        else:
            answer = head + await reader.read()
        if not answer.startswith(b"HTTP/1.1 200"):
            raise ValueError(answer[:1000].decode("utf-8", "replace"))
        return answer

    def close(self) -> None:
        if self._streams:
            self._streams[1].close()


class Measured(NamedTuple):
    latencies: list[float]
    """The latency of each answered request, in seconds."""
    seconds: float
    processor: float
    """Processor time of the service in seconds; NaN if its process is not known."""

    @property
    def per_second(self) -> float:
        return len(self.latencies) / self.seconds

    def quantile(self, share: float) -> float:
        """A quantile of the latencies, in milliseconds."""
        return 1000 * float(np.quantile(self.latencies, share))


class Load(NamedTuple):
    """The load that clients put on a service."""

    clients: int
    rate: float | None
    """Requests per second; None if each client sends its next request when it has its answer."""
    seconds: float
    text_size: int = 1
    """Sentences in a request of all clients but the first, which alone is measured if there are several."""

    async def run(self, service: Service, sentences: Sequence[str], pid: int | None) -> Measured:
        requests = [service.request(sentence) for sentence in sentences]
        connections = [Connection(service) for _ in range(self.clients)]
        refuse_without_trees(await connections[0].ask(requests[0]))
        texts = [
            service.request(" ".join(sentences[start : start + self.text_size]))
            for start in range(0, len(sentences), self.text_size)
        ]
        following = cycle(requests)
        ask = self._closed if self.rate is None else self._open
        if self.text_size > 1:
            ask = partial(self._beside, cycle(texts))
        await ask(connections, following, WARM_UP)
        processor, began = processor_seconds(pid), time.perf_counter()
        latencies = await ask(connections, following, self.seconds)
        seconds = time.perf_counter() - began
        measured = Measured(latencies, seconds, processor_seconds(pid) - processor)
        for connection in connections:
            connection.close()
        return measured

    async def _closed(
        self, connections: Sequence[Connection], requests: Iterator[bytes], seconds: float
    ) -> list[float]:
        end, latencies = time.perf_counter() + seconds, []

        async def client(connection: Connection) -> None:
            while (began := time.perf_counter()) < end:
                await connection.ask(next(requests))
                latencies.append(time.perf_counter() - began)

        await asyncio.gather(*map(client, connections))
        return latencies

    async def _beside(
        self,
        texts: Iterator[bytes],
        connections: Sequence[Connection],
        requests: Iterator[bytes],
        seconds: float,
    ) -> list[float]:
        """The first client sends requests, the others texts, until the end of the time."""
        first, *others = connections
        singles, _ = await asyncio.gather(
            self._closed([first], requests, seconds), self._closed(others, texts, seconds)
        )
        return singles

    async def _open(
        self, connections: Sequence[Connection], requests: Iterator[bytes], seconds: float
    ) -> list[float]:
        assert self.rate
        random, latencies = Random(1), []
        waiting: deque[float] = deque()
        """The times of requests that wait for a free connection."""
        idle, asking = list(connections), set()

        async def client(connection: Connection) -> None:
            while waiting:
                came = waiting.popleft()
                await connection.ask(next(requests))
                latencies.append(time.perf_counter() - came)
            idle.append(connection)

        following = began = time.perf_counter()
        while (following := following + random.expovariate(self.rate)) < began + seconds:
            if (pause := following - time.perf_counter()) > 0:
                await asyncio.sleep(pause)
            waiting.append(following)
            if idle:
                asking.add(task := asyncio.create_task(client(idle.pop())))
                task.add_done_callback(asking.discard)
        await asyncio.gather(*asking)
        return latencies


def refuse_without_trees(answer: bytes) -> None:
    """Raises ValueError if the answer contains no tree."""
    if b"\\t0\\troot\\t" not in answer:
        raise ValueError(f"there is no tree in {answer[:1000].decode('utf-8', 'replace')}")


def processor_seconds(pid: int | None) -> float:
    """The processor time of a process and its descendants; NaN without a process."""
    if pid is None:
        return float("nan")
    process = psutil.Process(pid)
    times = [one.cpu_times() for one in (process, *process.children(recursive=True))]
    return sum(one.user + one.system for one in times)


PROCESSOR = "processor seconds in 1,000 sentences"
VALUES: dict[str, Callable[[Measured], float]] = {
    "sentences/s": lambda one: one.per_second,
    "p50 in ms": lambda one: one.quantile(0.5),
    "p99 in ms": lambda one: one.quantile(0.99),
    PROCESSOR: lambda one: 1000 * one.processor / len(one.latencies),
}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("file", type=Path)
    options.add_argument("services", nargs="+", metavar="NAME=ADDRESS")
    options.add_argument("--clients", type=int, default=32)
    kinds = options.add_mutually_exclusive_group()
    kinds.add_argument("--rate", type=float)
    kinds.add_argument("--texts", type=int, default=1, metavar="N")
    options.add_argument("--seconds", type=float, default=10)
    options.add_argument("--turns", type=int, default=5)
    options.add_argument("--pid", type=int, nargs="+", default=[])
    given = options.parse_args()
    services = {
        name: Service.of(address) for name, _, address in (one.partition("=") for one in given.services)
    }
    sentences = list(filter(None, given.file.read_text(encoding="utf-8").splitlines()))
    pids = dict(zip(services, given.pid, strict=True)) if given.pid else dict.fromkeys(services)
    load = Load(given.clients, given.rate, given.seconds, given.texts)

    def run(name: str) -> Measured:
        return asyncio.run(load.run(services[name], sentences, pids[name]))

    rounds = list(in_turns({name: partial(run, name) for name in services}, given.turns))
    of_turns = {name: [each[name] for each in rounds] for name in services}
    values = VALUES if given.pid else {what: of for what, of in VALUES.items() if what != PROCESSOR}
    for name, turns in of_turns.items():
        known = {what: list(map(of, turns)) for what, of in values.items()}
        print(f"{name}: " + ", ".join(f"{what} {median_of(of_turn):.1f}" for what, of_turn in known.items()))
    first, *others = services
    for other in others:
        for what, of in values.items():
            ours, theirs = (list(map(of, of_turns[name])) for name in (first, other))
            print(f"{first} over {other}, {what}: {ratio_of(ours, theirs, interleaved=True)}")


if __name__ == "__main__":
    main()
