"""Servers of small applications, in the event loop of a test."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from parser.service.limits import Admission
from parser.service.listening import listen
from parser.service.server import Server

TIMES = SECONDS, GRACE, KEEP_ALIVE = 600, 600, 600


async def at_once(scope: Scope, receive: Receive, send: Send) -> None:
    """An application that answers all requests, and reads none."""
    if scope["type"] == "lifespan":
        for word in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{word}.complete"})
        return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"done"})


def everything_from(client: socket.socket) -> bytes:
    """What a client receives until the server closes the connection."""
    client.settimeout(60)
    with client.makefile("rb") as received:
        return received.read()


@asynccontextmanager
async def served(
    application: ASGIApp = at_once,
    seconds: float = SECONDS,
    grace: float = GRACE,
    keep_alive: int = KEEP_ALIVE,
    **how: Any,
) -> AsyncIterator[tuple[Server, int]]:
    """A server in the running loop, and its port. After the block, it is told to stop, and waited for.

    how: further arguments of `Server`.
    """
    with listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        times = seconds, grace, keep_alive
        server = Server(application, Admission(1, 1_000), *times, logging.getLogger("test"), **how)
        serving = asyncio.create_task(server.serve([listener]))
        while not server.started:
            await asyncio.sleep(0.01)
        try:
            yield server, port
        finally:
            server.should_exit = True
            await serving
