"""Admission of requests: a limited number at a time, and no new ones once the service is stopping."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

from parser.service.limits import RefusedError

RETRY_AFTER = {"Retry-After": "1"}
"""Seconds."""


class Admission:
    """Counts the requests that are worked on. To be used from the event loop only."""

    def __init__(self, most: int, most_bytes: int):
        """most, most_bytes: the maximum number of requests at the same time, and of bytes in their bodies."""
        self._most, self._most_bytes = most, most_bytes
        self.running, self.bytes = 0, 0
        self.drains = False
        """Whether the service is stopping."""

    def refuse_if_full(self) -> None:
        """Raises RefusedError if too many requests are worked on, or if the service is stopping."""
        if self.drains:
            raise RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, "the service is being stopped", RETRY_AFTER)
        if self.running >= self._most:
            message = f"{self.running:,} requests are parsed or wait already; try again later"
            raise RefusedError(HTTPStatus.TOO_MANY_REQUESTS, message, RETRY_AFTER)

    def hold(self, size: int) -> None:
        """Count bytes of a body; `release` counts them out. Raises RefusedError if they are too many."""
        if self.bytes + size > self._most_bytes:
            message = f"{self.bytes:,} bytes of other requests wait already; try again later, or send less"
            raise RefusedError(HTTPStatus.TOO_MANY_REQUESTS, message, RETRY_AFTER)
        self.bytes += size

    def release(self, size: int) -> None:
        self.bytes -= size

    @contextmanager
    def slot(self) -> Iterator[None]:
        """Count a request as worked on inside the block. Raises what `refuse_if_full` raises."""
        self.refuse_if_full()
        self.running += 1
        try:
            yield
        finally:
            self.running -= 1

    @contextmanager
    def given_back(self) -> Iterator[None]:
        """Free the slot for other requests inside the block, while the request waits for its client."""
        self.running -= 1
        try:
            yield
        finally:
            self.running += 1
