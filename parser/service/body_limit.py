"""Limits on the size of a request body, of all bodies together, and on the time in which one arrives."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from parser.service.admission import Admission
from parser.service.limits import Limits, RefusedError, too_large
from parser.service.request_record import record_of

DROPPED = 16
"""A body that is too large is read and dropped up to this multiple of the limit."""


class BodyLimit:
    """ASGI middleware. Reading a body over the limits raises RefusedError, also if the service is full."""

    def __init__(self, app: ASGIApp, limits: Limits, admission: Admission):
        self._app, self._limits, self._admission = app, limits, admission

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        record, headers = record_of(scope), Headers(scope=scope)
        length = headers.get("content-length", "")
        told = int(length) if length.isdecimal() else 0
        got = held = 0
        is_complete = not told and "transfer-encoding" not in headers

        async def refuse_large(size: int) -> None:
            if size > self._limits.bytes:
                if not is_complete:
                    await self._drop(receive, record.seconds)
                raise too_large(f"the request has more than {self._limits.bytes:,} bytes; divide it")

        async def limited() -> Message:
            nonlocal got, held, is_complete
            if is_complete:  # the next message says that the client has disconnected
                return await receive()
            if not got:  # what will be refused is refused before it is read
                self._admission.refuse_if_full()
                await refuse_large(told)
            try:
                async with asyncio.timeout(self._limits.seconds - record.seconds):
                    message = await receive()
            except TimeoutError:
                text = f"the request did not come within {self._limits.seconds:g} seconds"
                raise RefusedError(HTTPStatus.REQUEST_TIMEOUT, text) from None
            got += len(message.get("body", b""))
            is_complete = not message.get("more_body", False)
            await refuse_large(got)
            # Held when they come: otherwise clients that only announce bodies could take the room of others.
            self._admission.hold(got - held)
            held = got
            return message

        try:
            await self._app(scope, limited, send)
        finally:
            self._admission.release(held)

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
