"""Which requests are worked on: so many at a time, and no new ones when the service ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

from parser.service.limits import RefusedError

RETRY_AFTER = {"Retry-After": "1"}
"""Seconds."""


class Admission:
    """For the event loop alone."""

    def __init__(self, most: int):
        """most: requests at the same time."""
        self._most, self.running = most, 0
        self.drains = False
        """Whether the service ends."""

    def refuse_if_full(self) -> None:
        """Raises RefusedError if too many requests are worked on, or if the service ends."""
        if self.drains:
            raise RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, "the service is being stopped", RETRY_AFTER)
        if self.running >= self._most:
            message = f"{self.running:,} requests are parsed or wait already; try again later"
            raise RefusedError(HTTPStatus.TOO_MANY_REQUESTS, message, RETRY_AFTER)

    @contextmanager
    def slot(self) -> Iterator[None]:
        """Inside the block a request is worked on. Raises what `refuse_if_full` raises."""
        self.refuse_if_full()
        self.running += 1
        try:
            yield
        finally:
            self.running -= 1

    @contextmanager
    def given_back(self) -> Iterator[None]:
        """Inside the block, the request waits for its client, and others may have its slot."""
        self.running -= 1
        try:
            yield
        finally:
            self.running += 1
