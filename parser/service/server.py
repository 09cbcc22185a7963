"""A server of the application, which SIGTERM drains: running requests end, new ones are refused."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from logging import Logger

import uvicorn
from starlette.types import ASGIApp

from parser.service.admission import Admission
from parser.service.log import tell
from parser.system.interruption import SIGNALS

KEPT_ALIVE = 30
"""Seconds that a connection may wait for its next request."""


class Server(uvicorn.Server):
    """Serves until a signal comes, and ends as if it had been asked to."""

    def __init__(self, application: ASGIApp, admission: Admission, grace: float, logger: Logger):
        """grace: seconds in which running requests may end; then they are broken off."""
        config = uvicorn.Config(
            application,
            loop="asyncio",  # others do not ask sockets of ours to accept
            log_config=None,
            access_log=False,
            lifespan="on",
            server_header=False,
            timeout_keep_alive=KEPT_ALIVE,
            timeout_graceful_shutdown=max(1, round(grace)),
        )
        super().__init__(config)
        self._admission, self._logger = admission, logger

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """By the loop. A second signal breaks off what still runs."""
        loop = asyncio.get_running_loop()
        handled = [number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
        for number in handled:
            loop.add_signal_handler(number, self._stop)
        try:
            yield
        finally:
            for number in handled:
                loop.remove_signal_handler(number)

    def _stop(self) -> None:
        self.force_exit = self._admission.drains
        self.should_exit = self._admission.drains = True
        tell(self._logger, "stopping", running_requests=self._admission.running)
