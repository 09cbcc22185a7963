"""The socket on which a service listens."""

from __future__ import annotations

import errno
import socket
from asyncio.constants import ACCEPT_RETRY_DELAY
from typing import Any

BACKLOG = 1_024
PAUSE = ACCEPT_RETRY_DELAY
"""Seconds in which nothing is accepted after resources have run out."""
LACKS = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


class Listening(socket.socket):
    """A listening socket for an asyncio server, which pauses if file descriptors or memory run out."""

    _has_failed = False
    is_over = False
    """Whether no further connections are to be accepted."""

    def accept(self) -> tuple[socket.socket, Any]:
        """Return a connection and its client's address. Raises OSError.

        asyncio calls this up to a thousand times in turn, and logs each lack of resources. So the call after
        one that failed says that no connection waits.
        """
        if self._has_failed or self.is_over:
            self._has_failed = False
            raise BlockingIOError
        try:
            return self.next_connection()
        except OSError as error:
            self._has_failed = lacks_resources(error)
            raise

    def next_connection(self) -> tuple[socket.socket, Any]:
        """Like `accept`, at each call. Raises OSError."""
        return super().accept()


def lacks_resources(error: OSError) -> bool:
    """Whether a connection could not be accepted because the process or the machine has too many."""
    return error.errno in LACKS


def listen(host: str, port: int) -> Listening:
    """Return a socket for the server. port: 0 selects a free one. Raises ValueError if it cannot be bound."""
    if not host:
        raise ValueError("--host is empty; write 127.0.0.1 for this machine only, 0.0.0.0 for all networks")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        bound = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        reason = (error.strerror or str(error)).partition(" (while attempting")[0]  # it repeats the address
        raise ValueError(f"{host}, port {port}: {reason}") from None
    # Connections inherit this option. An answer is written in two pieces; the second would wait for 40 ms.
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
    return Listening(fileno=bound.detach())


def url_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
