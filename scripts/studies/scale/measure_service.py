"""Measure running services that speak UDPipe's protocol: raw text to trees, one sentence per request.

python scripts/studies/scale/measure_service.py FILE NAME=ADDRESS… [--clients 32] [--rate R] [--seconds 10] \\
    [--turns 5] [--pid PID…]

FILE has a sentence in each line. Services are measured in turns; numbers are medians over the turns with 95 %
intervals, and the first service is compared with the others.

Without --rate each client sends its next request when it has its answer. With --rate, R requests per second
are sent at random times (Poisson) over --clients connections, and latencies count from these times. --pid is
the process of each service; its child processes count, too.
"""

from __future__ import annotations

import argparse
import asyncio
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

END, CHUNKED, LENGTH = b"\r\n\r\n", b"transfer-encoding: chunked", b"content-length:"
LAST_CHUNK = b"\r\n0\r\n\r\n"
"""The end of a chunked answer; JSON never contains such line ends."""
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

    def request(self, path: str, parameters: dict[str, str] | None = None) -> bytes:
        """The bytes of a request: a POST of a form with these parameters, or a GET without parameters."""
        host = f"Host: {self.host}:{self.port}\r\n"
        if parameters is None:
            return f"GET {path} HTTP/1.1\r\n{host}\r\n".encode()
        body = urlencode(parameters).encode()
        kind = "Content-Type: application/x-www-form-urlencoded\r\n"
        length = f"Content-Length: {len(body)}\r\n\r\n"
        return f"POST {path} HTTP/1.1\r\n{host}{kind}{length}".encode() + body

    def trees(self, text: str) -> bytes:
        return self.request("/process", PARTS | {"data": text})


class Connection(asyncio.Protocol):
    """A connection with one request at a time. UDPipe's service closes it after each answer."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._body = 0
        """The start of the body in what was received; 0 until it is known."""
        self._length: int | None = None
        """Length of the whole answer; None if its end is marked otherwise."""
        self._is_chunked = False
        self._answered: asyncio.Future[bytes] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        if not self._answered or self._answered.done():
            return
        if self._body and self._length is None and not self._is_chunked:
            self._answer()
        else:
            self._answered.set_exception(ConnectionError("the service closed a connection"))

    async def ask(self, request: bytes) -> bytes:
        """Send a request; returns the answer with its headers. Raises ValueError unless its status is 200."""
        loop = asyncio.get_running_loop()
        if not self._transport:
            await loop.create_connection(lambda: self, *self._service)
        assert self._transport
        self._answered = loop.create_future()
        self._transport.write(request)
        answer = await self._answered
        if not answer.startswith(b"HTTP/1.1 200"):
            raise ValueError(answer[:1000].decode("utf-8", "replace"))
        return answer

    def close(self) -> None:
        if self._transport:
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        self._received += data
        if not self._body and (end := self._received.find(END)) >= 0:
            self._body, head = end + len(END), bytes(self._received[:end]).lower()
            self._is_chunked, self._length = CHUNKED in head, None
            if LENGTH in head:
                self._length = self._body + int(head.partition(LENGTH)[2].split()[0])
        if self._body and self._answered and self._is_complete:
            self._answer()

    @property
    def _is_complete(self) -> bool:
        if self._length is None:
            return self._is_chunked and self._received.endswith(LAST_CHUNK)
        return len(self._received) >= self._length

    def _answer(self) -> None:
        assert self._answered
        answer = bytes(self._received)
        self._received.clear()
        self._body = 0
        self._answered.set_result(answer)


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

    async def run(self, service: Service, sentences: Sequence[str], pid: int | None) -> Measured:
        requests = [service.trees(sentence) for sentence in sentences]
        connections = [Connection(service) for _ in range(self.clients)]
        refuse_without_trees(await connections[0].ask(requests[0]))
        ask = self._closed if self.rate is None else self._open
        following = cycle(requests)
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


VALUES: dict[str, Callable[[Measured], float]] = {
    "sentences/s": lambda one: one.per_second,
    "p50 in ms": lambda one: one.quantile(0.5),
    "p99 in ms": lambda one: one.quantile(0.99),
    "processor seconds in 1,000 sentences": lambda one: 1000 * one.processor / len(one.latencies),
}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("file", type=Path)
    options.add_argument("services", nargs="+", metavar="NAME=ADDRESS")
    options.add_argument("--clients", type=int, default=32)
    options.add_argument("--rate", type=float)
    options.add_argument("--seconds", type=float, default=10)
    options.add_argument("--turns", type=int, default=5)
    options.add_argument("--pid", type=int, nargs="+", default=[])
    given = options.parse_args()
    services = {
        name: Service.of(address) for name, _, address in (one.partition("=") for one in given.services)
    }
    sentences = list(filter(None, given.file.read_text(encoding="utf-8").splitlines()))
    pids = dict(zip(services, given.pid, strict=True)) if given.pid else dict.fromkeys(services)
    load = Load(given.clients, given.rate, given.seconds)

    def run(name: str) -> Measured:
        return asyncio.run(load.run(services[name], sentences, pids[name]))

    rounds = list(in_turns({name: partial(run, name) for name in services}, given.turns))
    of_turns = {name: [each[name] for each in rounds] for name in services}
    for name, turns in of_turns.items():
        known = {what: list(map(of, turns)) for what, of in VALUES.items() if not np.isnan(of(turns[0]))}
        print(f"{name}: " + ", ".join(f"{what} {median_of(of_turn):.1f}" for what, of_turn in known.items()))
    first, *others = services
    for other in others:
        for what, of in VALUES.items():
            ours, theirs = (list(map(of, of_turns[name])) for name in (first, other))
            print(f"{first} over {other}, {what}: {ratio_of(ours, theirs, interleaved=True)}")


if __name__ == "__main__":
    main()
