"""The error of a request that got no trees."""

from __future__ import annotations

from typing import Any

import httpx

from parser.system.console import shortened

REQUEST_ID = "X-Request-ID"
MAX_MESSAGE = 1_000
"""Maximum characters of a message; a proxy can answer with a whole page."""


class ServiceError(Exception):
    """The service, or a proxy before it, refused a request, or gave no complete answer."""

    def __init__(self, message: str, status: int | None = None, request_id: str | None = None):
        super().__init__(message if status is None else f"{status}: {message}")
        self.message = message
        """What the service says or, without a status, what happened to the connection."""
        self.status = status
        """The HTTP status, or the one that the last line of a stream tells; None if there was no answer, or
        if it ended too early for a reason that the service did not tell."""
        self.request_id = request_id
        """What the service's log calls the request; None if it did not answer."""


def refused(answer: httpx.Response) -> ServiceError:
    """Return the error that an answer tells. Its body has been read."""
    try:
        detail: Any = answer.json()["detail"]
    except (ValueError, LookupError, TypeError):  # of a proxy, or from before the request was understood
        detail = answer.text.strip() or answer.reason_phrase
    message, identifier = shortened(str(detail), MAX_MESSAGE), answer.headers.get(REQUEST_ID)
    return ServiceError(message, answer.status_code, identifier)


def lost(error: httpx.TransportError) -> ServiceError:
    """Return the error for a connection that failed."""
    what = "the service did not answer in time" if isinstance(error, httpx.TimeoutException) else "no answer"
    return ServiceError(f"{what}: {str(error) or type(error).__name__}")
