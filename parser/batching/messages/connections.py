"""TCP connections between all processes of a torch.distributed group.

Sending a small message by gloo takes milliseconds, and by a plain socket tens of microseconds.
"""

from __future__ import annotations

import os
import secrets
import socket
import struct
from typing import Any

import numpy as np
import torch.distributed as dist
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
NUMBER = struct.Struct("<q")
SECRET_BYTES = 16
START_TIMEOUT = 60.0
"""Seconds for all processes to connect."""


class Connections:
    """Sends numbers and bytes. Each direction of each connection is for one thread at a time.

    All methods raise OSError if the other process is lost.
    """

    def __init__(self) -> None:
        """To be called in all processes. They meet at the address by which they reach MASTER_ADDR."""
        rank, size = dist.get_rank(), dist.get_world_size()
        with _listening(size) as server:
            server.settimeout(START_TIMEOUT)
            secret = secrets.token_bytes(SECRET_BYTES)
            offers: list[Any] = [None] * size
            dist.all_gather_object(offers, (server.getsockname()[:2], secret))
            self._sockets = {other: _connected(offers[other], rank) for other in range(rank)}
            while len(self._sockets) < size - 1:
                found, other = _accepted(server, secret)
                self._sockets[other] = found

    def send_number(self, rank: int, number: int) -> None:
        self._sockets[rank].sendall(NUMBER.pack(number))

    def send(self, rank: int, content: Bytes) -> None:
        """The number of bytes, then the bytes."""
        self._sockets[rank].sendall(NUMBER.pack(len(content)))
        self._sockets[rank].sendall(content.data)

    def receive_number(self, rank: int) -> int:
        return _number(self._sockets[rank])

    def receive(self, rank: int, size: int) -> Bytes:
        """[size]"""
        return _read(self._sockets[rank], size)

    def close(self) -> None:
        for each in self._sockets.values():
            each.close()


def _listening(backlog: int) -> socket.socket:
    """At the address by which this machine reaches that of the first process, which torchrun names."""
    first = os.environ.get("MASTER_ADDR", "127.0.0.1")
    family = socket.getaddrinfo(first, None)[0][0]
    with socket.socket(family, socket.SOCK_DGRAM) as unsent:
        unsent.connect((first, 1))  # sends nothing
        own = unsent.getsockname()[0]
    return socket.create_server((own, 0), family=family, backlog=backlog)


def _connected(offer: tuple[tuple[str, int], bytes], rank: int) -> socket.socket:
    """offer: the address and the secret of another process."""
    address, secret = offer
    found = socket.create_connection(address, START_TIMEOUT)
    found.sendall(secret + NUMBER.pack(rank))
    return _ready(found)


def _accepted(server: socket.socket, secret: bytes) -> tuple[socket.socket, int]:
    """A connection, and the rank of the other process. Strangers do not know the secret."""
    while True:
        found, _ = server.accept()
        found.settimeout(START_TIMEOUT)
        try:
            given = _read(found, SECRET_BYTES).tobytes()
            if secrets.compare_digest(given, secret):
                return _ready(found), _number(found)
        except OSError:
            pass
        found.close()


def _ready(found: socket.socket) -> socket.socket:
    found.settimeout(None)
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return found


def _number(source: socket.socket) -> int:
    return NUMBER.unpack(_read(source, NUMBER.size).tobytes())[0]


def _read(source: socket.socket, size: int) -> Bytes:
    """[size]"""
    content = np.empty(size, np.uint8)
    rest = content.data
    while rest:
        count = source.recv_into(rest)
        if not count:
            raise ConnectionError("the other process has closed the connection")
        rest = rest[count:]
    return content
