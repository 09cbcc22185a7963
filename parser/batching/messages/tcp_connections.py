"""TCP connections between all processes of a torch.distributed group, and messages as bytes.

Sending small messages by gloo takes far longer. The connections are not encrypted: use a trusted network.
"""

from __future__ import annotations

import json
import secrets
import socket
import struct
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor

from parser.batching.messages.message_graph import Message, MessageState, Port
from parser.batching.messages.workers import Delivery

Bytes = NDArray[np.uint8]
Offer = tuple[tuple[str, int], bytes]
"""The address at which a process listens, and the secret that others must send to connect."""
NUMBER = struct.Struct("<q")
SECRET_BYTES = 16
CONNECT_TIMEOUT = 60.0
"""Seconds to wait for all processes to connect."""
STRANGER_TIMEOUT = 5.0
"""Seconds to wait until a connected process identifies itself."""
TENSOR_ALIGNMENT = 8
"""In bytes, so that tensors can be read in place."""


class Connections:
    """Sends numbers and bytes. Only one thread at a time must use a direction of a connection.

    All methods raise OSError if the other process is lost.
    """

    def __init__(self, first: str):
        """Connect all processes. Must be called in each of them.

        first: the name or address of the machine with the first process. Each process listens at the address
        from which it reaches this machine.
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
                self._sockets[other] = _open_connection(address, secret, rank)
            except OSError as error:
                advice = "set MASTER_ADDR to an address of the first machine that all others reach"
                raise OSError(f"worker {other} is not reached at {address}: {error}; {advice}") from None

    def _accept(self, server: socket.socket, secret: bytes, others: int) -> None:
        end = time.monotonic() + CONNECT_TIMEOUT
        while len(self._sockets) < others:
            server.settimeout(max(0.1, end - time.monotonic()))
            try:
                connection, other = _accept_connection(server, secret)
            except TimeoutError:
                reached = f"only {len(self._sockets)} of {others} processes"
                raise TimeoutError(f"{reached} connected in {CONNECT_TIMEOUT:g} s") from None
            self._sockets[other] = connection

    def send_number(self, rank: int, number: int) -> None:
        self._sockets[rank].sendall(NUMBER.pack(number))

    def send(self, rank: int, content: Bytes) -> None:
        """Send the number of bytes, then the bytes."""
        self._sockets[rank].sendall(NUMBER.pack(len(content)))
        self._sockets[rank].sendall(content.data)

    def receive_number(self, rank: int) -> int:
        return _number(self._sockets[rank])

    def receive(self, rank: int, size: int) -> Bytes:
        """[size] Receive a number of bytes."""
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
        address = unsent.getsockname()[0]
    return socket.create_server((address, 0), family=family, backlog=backlog)


def _open_connection(address: tuple[str, int], secret: bytes, rank: int) -> socket.socket:
    """Connect to another process, whose address and secret are known."""
    connection = socket.create_connection(address, CONNECT_TIMEOUT)
    connection.sendall(secret + NUMBER.pack(rank))
    return _ready(connection)


def _accept_connection(server: socket.socket, secret: bytes) -> tuple[socket.socket, int]:
    """Accept a connection from a process that knows the secret. Returns it, and the rank of the process.

    Raises TimeoutError after the timeout of `server`.
    """
    while True:
        connection, _ = server.accept()
        connection.settimeout(STRANGER_TIMEOUT)
        with suppress(OSError):
            given, rank = _read(connection, SECRET_BYTES).tobytes(), _number(connection)
            if secrets.compare_digest(given, secret):
                return _ready(connection), rank
        connection.close()


def _ready(connection: socket.socket) -> socket.socket:
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # notices a machine that is lost
    return connection


def _number(source: socket.socket) -> int:
    return NUMBER.unpack(_read(source, NUMBER.size).tobytes())[0]


def _read(source: socket.socket, size: int) -> Bytes:
    """[size] Read a number of bytes."""
    content = np.empty(size, np.uint8)
    rest = content.data
    while rest:
        count = source.recv_into(rest)
        if not count:
            raise ConnectionError("the other process has closed the connection")
        rest = rest[count:]
    return content


def delivery_to_bytes(delivery: Delivery) -> Bytes:
    """[bytes] A delivery as bytes, for `delivery_from_bytes`."""
    forward, to, (payload, state, training) = delivery
    descriptions = [
        None
        if tensor is None
        else (str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), tensor.requires_grad)
        for tensor in payload
    ]
    head = json.dumps([forward, to, state, training, descriptions]).encode()
    parts = [np.frombuffer(head, np.uint8)]
    parts += [each.detach().reshape(-1).view(torch.uint8).numpy() for each in payload if each is not None]
    content = np.empty(TENSOR_ALIGNMENT + sum(map(_aligned, parts)), np.uint8)
    content[:TENSOR_ALIGNMENT].view(np.int64)[0] = len(head)
    start = TENSOR_ALIGNMENT
    for part in parts:
        content[start : start + len(part)] = part
        start += _aligned(part)
    return content


def delivery_from_bytes(content: Bytes) -> Delivery:
    """The inverse of `delivery_to_bytes`. content: [bytes], whose memory the payload shares."""
    head = content[TENSOR_ALIGNMENT : TENSOR_ALIGNMENT + int(content[:TENSOR_ALIGNMENT].view(np.int64)[0])]
    forward, to, (instance, position), training, descriptions = json.loads(head.tobytes())
    start = TENSOR_ALIGNMENT + _aligned(head)
    payload: list[Tensor | None] = []
    for description in descriptions:
        if description is None:
            payload.append(None)
            continue
        name, shape, wanted = description
        kind: Any = getattr(torch, name)
        count = torch.Size(shape).numel()
        tensor = torch.empty(0, dtype=kind)
        if count:
            tensor = torch.frombuffer(content, dtype=kind, count=count, offset=start)
        tensor = tensor.view(tuple(shape)).requires_grad_(wanted)
        payload.append(tensor)
        start += -(-tensor.nbytes // TENSOR_ALIGNMENT) * TENSOR_ALIGNMENT
    message = Message(tuple(payload), MessageState(instance, tuple(position)), training)
    return Delivery(forward, Port(*to), message)


def _aligned(part: Bytes) -> int:
    """Return the number of bytes, rounded up to the alignment."""
    return -(-len(part) // TENSOR_ALIGNMENT) * TENSOR_ALIGNMENT
