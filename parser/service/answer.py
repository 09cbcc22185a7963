"""An answer that is computed while it is sent, as long as its client is connected."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, contextmanager
from http import HTTPStatus

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from parser.service.limits import STOPPING, Admission, RefusedError, wrong
from parser.service.request_record import RequestRecord, record_of

HELD_BYTES = 1 << 16
"""Bytes of an answer, if it is not a stream, that are collected before they are sent. An error before the
first are sent sets the status."""
UNWATCHED = 0.1
"""Seconds in which a client that disconnects is not noticed: most requests take less, and need no task."""
FAILED = "the service failed; its log says where"
ErrorLine = Callable[[int, str], bytes]
"""Writes an error as the last line of a stream: its status, and what is wrong."""


class Answer(Response):
    """A response that takes a slot, and gives it back while it waits for a slow client.

    An error before the first byte raises RefusedError. After the first byte, a stream gets a last line that
    tells the error, and the answer is broken off in any case: readers who know nothing of that line (in
    CoNLL-U it is a comment) would otherwise take it for a complete one. Where a proxy makes the end look
    regular, the line still tells.
    """

    def __init__(
        self,
        chunks: AsyncGenerator[bytes, None],
        media_type: str,
        admission: Admission,
        seconds: float,
        error_line: ErrorLine | None = None,
    ):
        """seconds: the time after which the answer is broken off. error_line: of a stream, whose chunks are
        sent at once; None if the answer is not a stream.
        """
        super().__init__(media_type=media_type)
        del self.headers["content-length"]
        self._chunks, self._admission = chunks, admission
        self._seconds, self._error_line = seconds, error_line
        self._held_bytes = 1 if error_line else HELD_BYTES
        self._has_begun = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        record = record_of(scope)
        try:
            with self._admission.slot():
                async with asyncio.timeout(self._seconds - record.seconds) as limit:
                    with _ended_if_gone(receive, limit, record):
                        await self._send_all(send)
        except (TimeoutError, ValueError, RefusedError) as error:
            if record.outcome == "gone":
                return
            if self._has_begun or isinstance(error, TimeoutError):
                record.outcome = "broken off"
            await self._end(send, self._told(error))
        except asyncio.CancelledError:  # the service is being stopped
            if self._has_begun:
                await self._end(send, RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, STOPPING))
            raise
        except Exception as error:
            record.fail(error)
            await self._end(send, RefusedError(HTTPStatus.INTERNAL_SERVER_ERROR, FAILED))

    def _told(self, error: TimeoutError | ValueError | RefusedError) -> RefusedError:
        """Return an error as the client is told of it."""
        if isinstance(error, TimeoutError):
            message = f"not done within {self._seconds:g} seconds; send less at a time, or try again later"
            return RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, message)
        return error if isinstance(error, RefusedError) else wrong(str(error))

    async def _end(self, send: Send, error: RefusedError) -> None:
        """Raise the error or, if the answer has begun, send the last line of a stream."""
        if not self._has_begun:
            raise error from None
        if self._error_line:
            line = self._error_line(error.status_code, error.detail)
            await send({"type": "http.response.body", "body": line, "more_body": True})

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


@contextmanager
def _ended_if_gone(receive: Receive, limit: asyncio.Timeout, record: RequestRecord) -> Iterator[None]:
    """End the time of a request when its client disconnects inside the block, and note it in the record."""

    async def watch() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        if not limit.expired():
            record.outcome = "gone"
            limit.reschedule(0.0)

    tasks: list[asyncio.Task[None]] = []
    loop = asyncio.get_running_loop()
    beginning = loop.call_later(UNWATCHED, lambda: tasks.append(loop.create_task(watch())))
    try:
        yield
    finally:
        beginning.cancel()
        for task in tasks:
            task.cancel()
