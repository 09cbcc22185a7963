"""Whether and when a request is sent again.

Sending it again does no harm: the service keeps nothing of a request.
"""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from random import uniform
from time import monotonic

import httpx

from parser.client.errors import lost, refused

BUSY = HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE
"""The statuses that are temporary, if the answer says when to come again (`Retry-After`)."""
LOST = httpx.ConnectTimeout, httpx.NetworkError, httpx.RemoteProtocolError
"""Errors of connections that another attempt may not have. What took too long would do so again."""
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 8.0
"""Seconds before the second attempt, and at most, unless the service asks for more. They double each time."""


class Attempts:
    """The attempts at one request."""

    def __init__(self, seconds: float):
        """seconds: the time from the first attempt in which others may begin."""
        self._end = monotonic() + seconds
        self._pause = FIRST_PAUSE

    def pause_after(self, failed: httpx.Response | httpx.TransportError) -> float:
        """Return the seconds until the next attempt. failed: how the last one ended; an answer has been read.

        Raises ServiceError if there is to be no other attempt.
        """
        if isinstance(failed, httpx.Response):
            least, error = wanted_pause(failed), refused(failed)
        else:
            least, error = 0.0 if isinstance(failed, LOST) else None, lost(failed)
        pause = max(least or 0.0, self._pause * uniform(0.5, 1.0))  # not all clients at once
        if least is None or monotonic() + pause > self._end:
            raise error
        self._pause = min(2 * self._pause, LONGEST_PAUSE)
        return pause


def wanted_pause(answer: httpx.Response) -> float | None:
    """Return the seconds after which an answer asks to come again; None if it does not ask for this."""
    given = answer.headers.get("retry-after", "")
    if answer.status_code not in BUSY or not given:
        return None
    if given.isdecimal():
        return float(given)
    try:
        date = parsedate_to_datetime(given)
    except ValueError:
        return None
    return max(0.0, (date.astimezone(UTC) - datetime.now(UTC)).total_seconds())
