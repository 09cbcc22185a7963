"""Clients that send requests to a service again and again while something happens to it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from urllib.parse import urlencode

from services import TEXT

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
