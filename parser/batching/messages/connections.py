"""TCP connections between all processes of a torch.distributed group.

Sending small messages by gloo takes far longer. The connections are not encrypted: use a trusted network.
"""

from __future__ import annotations

import secrets
import socket
import struct
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import torch.distributed as dist
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Offer = tuple[tuple[str, int], bytes]
"""The address at which a process listens, and what others must know to connect."""
NUMBER = struct.Struct("<q")
SECRET_BYTES = 16
START_TIMEOUT = 60.0
"""Seconds for all processes to connect."""
STRANGER_TIMEOUT = 5.0
"""Seconds for a process that has connected to say who it is."""


class Connections:
    """Sends numbers and bytes. Each direction of each connection is for one thread at a time.

    All methods raise OSError if the other process is lost.
    """

    def __init__(self, first: str):
        """To be called in all processes. Each listens at the address by which it reaches `first`.

        first: name or address of the machine with the first process.
        """
        rank, size = dist.get_rank(), dist.get_world_size()
        self._sockets: dict[int, socket.socket] = {}
        with _listening(first, size) as server:
            secret = secrets.token_bytes(SECRET_BYTES)
            offers: list[Any] = [None] * size
            dist.all_gather_object(offers, (server.getsockname()[:2], secret))
            try:
                self._connect(offers[:rank], rank)
                self._accept(server, secret, size - 1)
            except BaseException:
                self.close()
                raise

    def _connect(self, offers: Sequence[Offer], rank: int) -> None:
        for other, (address, secret) in enumerate(offers):
            try:
                self._sockets[other] = _connected(address, secret, rank)
            except OSError as error:
                advice = "set MASTER_ADDR to an address of the first machine that all others reach"
                raise OSError(f"worker {other} is not reached at {address}: {error}; {advice}") from None

    def _accept(self, server: socket.socket, secret: bytes, others: int) -> None:
        end = time.monotonic() + START_TIMEOUT
        while len(self._sockets) < others:
            server.settimeout(max(0.1, end - time.monotonic()))
            try:
                found, other = _accepted(server, secret)
            except TimeoutError:
                message = f"only {len(self._sockets)} of {others} processes connected in {START_TIMEOUT:g} s"
                raise TimeoutError(message) from None
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
            with suppress(OSError):  # the other process may be gone
                each.shutdown(socket.SHUT_RDWR)  # also for a thread that is still reading
            each.close()


def _listening(first: str, backlog: int) -> socket.socket:
    family = socket.getaddrinfo(first, None)[0][0]
    with socket.socket(family, socket.SOCK_DGRAM) as unsent:
        unsent.connect((first, 1))  # sends nothing
        own = unsent.getsockname()[0]
    return socket.create_server((own, 0), family=family, backlog=backlog)


def _connected(address: tuple[str, int], secret: bytes, rank: int) -> socket.socket:
    """Connected with another process, of which the address and the secret are known."""
    found = socket.create_connection(address, START_TIMEOUT)
    found.sendall(secret + NUMBER.pack(rank))
    return _ready(found)


def _accepted(server: socket.socket, secret: bytes) -> tuple[socket.socket, int]:
    """A connection, and the rank of the other process. Strangers do not know the secret.

    Raises TimeoutError after the timeout of `server`.
    """
    while True:
        found, _ = server.accept()
        found.settimeout(STRANGER_TIMEOUT)
        with suppress(OSError):
            given, rank = _read(found, SECRET_BYTES).tobytes(), _number(found)
            if secrets.compare_digest(given, secret):
                return _ready(found), rank
        found.close()


def _ready(found: socket.socket) -> socket.socket:
    found.settimeout(None)
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # notices a machine that is lost
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
