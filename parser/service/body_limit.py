"""Limits on the size of a request body and on the time in which it arrives."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from parser.service.limits import Limits, RefusedError, too_large
from parser.service.request_record import record_of

DROPPED = 16
"""A body that is too large is read and dropped up to this multiple of the limit."""


class BodyLimit:
    """ASGI middleware. Reading a body over the limits raises RefusedError."""

    def __init__(self, app: ASGIApp, limits: Limits):
        self._app, self._limits = app, limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        record, length = record_of(scope), Headers(scope=scope).get("content-length", "")
        told, got, is_complete = int(length) if length.isdecimal() else 0, 0, False

        async def limited() -> Message:
            nonlocal got, is_complete
            if is_complete:  # the next message says that the client has disconnected
                return await receive()
            if told > self._limits.bytes:
                await self._drop(receive, record.seconds)
                raise self._too_large()
            try:
                async with asyncio.timeout(self._limits.seconds - record.seconds):
                    message = await receive()
            except TimeoutError:
                text = f"the request did not come within {self._limits.seconds:g} seconds"
                raise RefusedError(HTTPStatus.REQUEST_TIMEOUT, text) from None
            got += len(message.get("body", b""))
            is_complete = not message.get("more_body", False)
            if got > self._limits.bytes:
                if not is_complete:
                    await self._drop(receive, record.seconds)
                raise self._too_large()
            return message

        await self._app(scope, limited, send)

    async def _drop(self, receive: Receive, seconds: float) -> None:
        """Read and drop the rest of a body, within bounds: most clients read no answer while they still send.

        seconds: the time that the request has taken so far.
        """
        dropped, has_more = 0, True
        with suppress(TimeoutError):
            async with asyncio.timeout(self._limits.seconds - seconds):
                while has_more and dropped < DROPPED * self._limits.bytes:
                    message = await receive()
                    has_more = message.get("more_body", False)
                    dropped += len(message.get("body", b""))

    def _too_large(self) -> RefusedError:
        return too_large(f"the request has more than {self._limits.bytes:,} bytes; divide it")
