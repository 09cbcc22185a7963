"""How the connections of a worker that has died end: its requests are answered with an error if possible.

The supervisor has these connections open, too, and sees from their stages what the worker has sent.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from http import HTTPStatus

from parser.service.error_forms import RETRY_AFTER, error_in_conllu, error_in_ndjson, plain_answer
from parser.service.stages import Stage

MESSAGE = "the process that parsed this has died; send the request again"
STATUS = HTTPStatus.SERVICE_UNAVAILABLE
SECONDS_TO_READ = 5.0
"""Time for reading the end of the answer, and for sending the rest of the request."""


def say_lost(connection: socket.socket, stage: int) -> bool:
    """Send an error, without waiting, and end the answer. Returns whether a request is lost.

    An answer that has begun gets at most another chunk, and is not complete, as clients will see.
    """
    connection.setblocking(False)
    if stage == Stage.IDLE and _has_unread(connection):
        stage = Stage.ASKED
    told = _error_at(stage)
    with suppress(OSError):  # the client is gone, or reads nothing
        if told:
            connection.send(told)
        connection.shutdown(socket.SHUT_WR)
    return bool(told) or stage == Stage.ANSWERING


async def close_after_client(connection: socket.socket) -> None:
    """Drop what the client still sends, and close the connection when the client does or after some time.

    If it were closed while there is something to read, the client could lose the answer: see RFC 9112,
    section 9.6.
    """
    loop = asyncio.get_running_loop()
    with connection, suppress(OSError):  # includes TimeoutError
        async with asyncio.timeout(SECONDS_TO_READ):
            while await loop.sock_recv(connection, 1 << 16):
                pass


def _error_at(stage: int) -> bytes:
    """Return what may be sent at this stage to tell the error."""
    if stage == Stage.ASKED:
        return plain_answer(STATUS, MESSAGE, RETRY_AFTER)
    if stage == Stage.BETWEEN_LINES:
        return _chunk(error_in_ndjson(STATUS, MESSAGE))
    if stage == Stage.BETWEEN_SENTENCES:
        return _chunk(error_in_conllu(STATUS, MESSAGE))
    return b""


def _chunk(content: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(content), content)


def _has_unread(connection: socket.socket) -> bool:
    """Whether the client has sent something that nobody has read."""
    try:
        return bool(connection.recv(1, socket.MSG_PEEK))
    except OSError:
        return False
