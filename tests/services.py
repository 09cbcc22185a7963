"""Services that tests start on free ports of this machine, and clients that send requests again and again."""

from __future__ import annotations

import json
import re
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from queue import Queue
from subprocess import PIPE, Popen
from typing import Any
from urllib.parse import urlencode

import pytest
from programs import running

from parser.cli import main

httpx = pytest.importorskip("httpx")
TEXT = "The cat sleeps. Don't go!\n\nWas it round?\n"
TREEBANK = Path("data/quickstart/test.conllu")


def make_model(folder: Path) -> Path:
    """A model with a tokenizer."""
    shutil.copytree("tests/model", folder)
    shutil.copy("tests/text/tokenizer.json", folder)
    return folder


class RunningService:
    """A program that serves."""

    def __init__(self, process: Popen[str]):
        self.process = process
        self.lines: Queue[dict[str, Any]] = Queue()
        """The lines of its log."""
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()
        self.told = self.next("serving")
        self.url = self.told["url"]
        self.port = int(self.url.rpartition(":")[2])

    def _read(self) -> None:
        for line in self.process.stderr or ():
            self.lines.put(json.loads(line) if line.startswith("{") else {"event": "other", "line": line})
        self.lines.put({"event": "ended"})

    def kill(self) -> None:
        """Kill it, and wait until its processes have ended and nothing writes to the log any more."""
        self.process.kill()
        self._reading.join()

    def next(self, event: str) -> dict[str, Any]:
        """The next line of the log with this event."""
        while (line := self.lines.get(timeout=120))["event"] != event:
            assert line["event"] not in ("ended", "other"), line
        return line

    def metrics(self) -> dict[str, float]:
        """The values of all metrics, by their names with labels."""
        text = httpx.get(f"{self.url}/metrics", timeout=60).text
        lines = re.findall(r"^([^#\s]\S*) (\S+)$", text, re.MULTILINE)
        return {name: float(value) for name, value in lines}

    def wait_for_requests(self, count: int) -> None:
        """Wait until so many requests are being parsed."""
        while self.metrics()["stack_parser_running_requests"] < count:
            pass

    def process_text(self, **parameters: str) -> str:
        """The answer by UDPipe's protocol, without the comments about the program."""
        return without_program(self.raw_result(**parameters))

    def raw_result(self, **parameters: str) -> str:
        answer = httpx.post(f"{self.url}/process", data=parameters, timeout=60)
        assert answer.status_code == 200, answer.text
        return answer.json()["result"]


def broken_off(pieces: Iterator[bytes]) -> str:
    """The content of an answer whose client notices that it is incomplete."""
    received = bytearray()

    def read() -> None:
        for piece in pieces:
            received.extend(piece)

    with pytest.raises(httpx.RemoteProtocolError):
        read()
    return received.decode()


def without_program(result: str) -> str:
    lines = result.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith(("# generator = ", "# udpipe_model = ")))


@contextmanager
def serving(*arguments: str | Path) -> Iterator[RunningService]:
    command = [sys.executable, "-m", "parser", "serve", "--port", "0", "--device", "cpu"]
    with running([*command, *map(str, arguments)], stderr=PIPE, text=True) as process:
        service = RunningService(process)
        try:
            yield service
        finally:
            service.kill()


def parsed_by_command(model: Path, content: str, *options: str) -> str:
    """The output of `stack-parser parse`."""
    source, target = model.parent / "in", model.parent / "out"
    source.write_text(content, encoding="utf-8")
    assert main(["parse", str(model), *options, str(source), "-o", str(target), "--device", "cpu"]) == 0
    return target.read_text(encoding="utf-8")


Answer = tuple[int, bytes]
"""Status and body."""


def ask(connection: HTTPConnection, text: str = TEXT) -> Answer:
    """The answer by UDPipe's protocol."""
    body = urlencode({"data": text, "tokenizer": "", "parser": ""})
    connection.request("POST", "/process", body, {"Content-Type": "application/x-www-form-urlencoded"})
    answer = connection.getresponse()
    return answer.status, answer.read()


class Client(threading.Thread):
    """Sends requests again and again, over one connection for as long as it is kept open."""

    def __init__(self, port: int):
        super().__init__()
        self._port, self._ends = port, threading.Event()
        self.answers: list[Answer] = []
        self.lost = 0
        """Requests without an answer."""

    def run(self) -> None:
        connection = HTTPConnection("127.0.0.1", self._port, timeout=60)
        while not self._ends.is_set():
            try:
                self.answers.append(ask(connection))
            except (OSError, HTTPException):
                self.lost += 1
                connection.close()
        connection.close()

    def end(self) -> None:
        self._ends.set()
        self.join()


@contextmanager
def clients_of(port: int, count: int) -> Iterator[list[Client]]:
    clients = [Client(port) for _ in range(count)]
    for client in clients:
        client.start()
    try:
        yield clients
    finally:
        for client in clients:
            client.end()
