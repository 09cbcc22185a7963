"""The socket on which a service listens."""

from __future__ import annotations

import socket

BACKLOG = 1_024


def listen(host: str, port: int) -> socket.socket:
    """Return a socket for the server. port: 0 selects a free one. Raises ValueError if it cannot be bound."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        reason = (error.strerror or str(error)).partition(" (while attempting")[0]  # it repeats the address
        raise ValueError(f"{host}, port {port}: {reason}") from None
    # Connections inherit this option. An answer is written in two pieces; the second would wait for 40 ms.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
    return listener


def url_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
