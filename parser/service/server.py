"""A server of the application. On SIGTERM it drains: running requests finish, new ones are refused."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from logging import Logger
from typing import Any, cast

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from parser.service.client_connection import MAX_HEADERS, ClientConnection
from parser.service.limits import Admission
from parser.service.listening import PAUSE, Listening, lacks_resources
from parser.service.log import tell
from parser.system.interruption import handled_by_loop

KEPT_ALIVE = 30
"""Seconds that a connection may wait for its next request."""

SECONDS_TO_BREAK_OFF = 1.0
"""Time for requests that are broken off to say so to their clients."""
SECONDS_TO_CONNECT = 0.05
"""Time for accepted sockets to become connections: some turns of the loop."""


class Server(uvicorn.Server):
    """Serves until a signal arrives, and then returns normally."""

    def __init__(
        self, application: ASGIApp, admission: Admission, seconds: float, grace: float, logger: Logger
    ):
        """seconds: see `ClientConnection`. grace: seconds in which running requests can finish; then they are
        broken off.
        """

        async def served(scope: Scope, receive: Receive, send: Send) -> None:
            with suppress(asyncio.CancelledError):  # uvicorn would log it as a fault
                await application(scope, receive, send)

        config = uvicorn.Config(
            served,
            loop="asyncio",  # other loops do not call `accept` of our sockets
            # httptools saves 0.15 ms for each request, but accepts headers of any size.
            http=cast(type[ClientConnection], partial(ClientConnection, seconds)),
            h11_max_incomplete_event_size=MAX_HEADERS,
            log_config=None,
            access_log=False,
            lifespan="on",
            server_header=False,
            proxy_headers=False,  # the client's address is not used
            timeout_keep_alive=KEPT_ALIVE,
            timeout_graceful_shutdown=max(1, round(grace)),
        )
        super().__init__(config)
        self._admission, self._logger = admission, logger
        self._accepts_again = 0.0
        """Time of the loop until which no connections are accepted, as resources have run out."""

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until a signal arrives. Raises ValueError if the server cannot start."""
        with suppress(SystemExit):  # some versions of uvicorn raise it, others return
            super().run(sockets)
        if not self.started:
            raise ValueError("the service could not begin; the lines before this one say why")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop listening before connections are closed: a socket that is accepted now is not a connection
        yet, and would not be closed.
        """
        loop = asyncio.get_running_loop()
        for listener in sockets or ():
            assert isinstance(listener, Listening)
            listener.is_over = True
        # At the end of a pause, asyncio would begin to listen at a closed socket.
        await asyncio.sleep(self._accepts_again + SECONDS_TO_CONNECT - loop.time())
        for listener in sockets or ():
            loop.remove_reader(listener)
        await asyncio.sleep(SECONDS_TO_CONNECT)
        await super().shutdown(sockets)
        if tasks := self.server_state.tasks:  # which uvicorn has cancelled
            await asyncio.wait(tasks, timeout=SECONDS_TO_BREAK_OFF)
        if self.force_exit:
            await self.lifespan.shutdown()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Let the event loop handle signals. A second signal breaks off running requests."""
        asyncio.get_running_loop().set_exception_handler(self._note)
        with handled_by_loop(self._stop):
            yield

    def _stop(self, number: int) -> None:
        if self._admission.drains:
            # The loop itself would not keep the task.
            self._breaking_off = asyncio.create_task(self._break_off())
        self.should_exit = self._admission.drains = True
        tell(self._logger, "stopping", running_requests=self._admission.running)

    async def _break_off(self) -> None:
        """Break off running requests, and then whatever does not end."""
        for task in self.server_state.tasks:
            task.cancel()
        await asyncio.sleep(SECONDS_TO_BREAK_OFF)
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        self.force_exit = True

    def _note(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log an error that the loop has noticed."""
        error = context.get("exception")
        if "socket" in context and isinstance(error, OSError) and lacks_resources(error):
            self._accepts_again = loop.time() + PAUSE
            tell(self._logger, "no connections accepted", error=error.strerror, pause=PAUSE)
        else:
            loop.default_exception_handler(context)
