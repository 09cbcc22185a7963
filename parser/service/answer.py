"""An answer that is computed while it is sent, as long as its client is connected."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing
from http import HTTPStatus
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from parser.service.limits import Admission, RefusedError, wrong
from parser.service.request_record import record_of

HELD_BYTES = 1 << 16
"""Bytes of an answer that are collected before they are sent. An error before the first are sent sets the
status."""
FAILED = "the service failed; its log says where"


class GoneError(Exception):
    """The client has disconnected."""


class Answer(Response):
    """A response that takes a slot, and gives it back while it waits for a slow client.

    An error before the first byte raises RefusedError. After the first byte, the answer is broken off, so
    that nobody takes it for a complete one.
    """

    def __init__(
        self,
        chunks: AsyncGenerator[bytes, None],
        media_type: str,
        admission: Admission,
        seconds: float,
        held_bytes: int = HELD_BYTES,
    ):
        """seconds: the time after which the answer is broken off."""
        super().__init__(media_type=media_type)
        del self.headers["content-length"]
        self._chunks, self._admission = chunks, admission
        self._seconds, self._held_bytes = seconds, held_bytes
        self._has_begun = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        record = record_of(scope)
        try:
            with self._admission.slot():
                async with asyncio.timeout(self._seconds - record.seconds):
                    await _unless_gone(receive, self._send_all(send))
        except GoneError:
            record.outcome = "gone"
        except (TimeoutError, ValueError, RefusedError) as error:
            if self._has_begun or isinstance(error, TimeoutError):
                record.outcome = "broken off"
            if self._has_begun:
                return
            if isinstance(error, TimeoutError):
                message = (
                    f"not done within {self._seconds:g} seconds; send less at a time, or try again later"
                )
                raise RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, message) from None
            raise (error if isinstance(error, RefusedError) else wrong(str(error))) from None
        except Exception as error:
            record.fail(error)
            if not self._has_begun:
                raise RefusedError(HTTPStatus.INTERNAL_SERVER_ERROR, FAILED) from None

    async def _send_all(self, send: Send) -> None:
        held = bytearray()
        async with aclosing(self._chunks) as chunks:
            async for chunk in chunks:
                held += chunk
                if len(held) >= self._held_bytes:
                    await self._send(send, bytes(held), has_more=True)
                    held.clear()
        await self._send(send, bytes(held), has_more=False)

    async def _send(self, send: Send, content: bytes, has_more: bool) -> None:
        with self._admission.given_back():
            if not self._has_begun:
                if not has_more:
                    self.headers["content-length"] = str(len(content))
                self._has_begun = True
                status = {"status": self.status_code, "headers": self.raw_headers}
                await send({"type": "http.response.start", **status})
            await send({"type": "http.response.body", "body": content, "more_body": has_more})


async def _unless_gone(receive: Receive, work: Coroutine[Any, Any, None]) -> None:
    """Wait for the work. Raises GoneError, and cancels the work, if the client disconnects first."""
    working, watching = asyncio.create_task(work), asyncio.create_task(_gone(receive))
    try:
        await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            watching.result()  # raises an error of the body instead, if there was one
            raise GoneError
        working.result()
    finally:
        working.cancel()
        watching.cancel()
        await asyncio.gather(working, watching, return_exceptions=True)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
