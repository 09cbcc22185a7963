"""A server of the application. On SIGTERM it drains: running requests finish, new ones are refused.

Its connections have a limited time for each request, and for sending and reading it. If a connection is
closed while bytes of the client are unread, the kernel resets it, and the client may lose an answer that it
has not read: see RFC 9112, section 9.6. So closing lingers until the client has sent all.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http import HTTPStatus
from logging import Logger
from typing import Any, Literal, cast

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from parser.service.error_forms import plain_answer
from parser.service.limits import Admission
from parser.service.listening import PAUSE, Listening, lacks_resources
from parser.service.log import tell
from parser.service.request_record import IDENTIFIER_HEADER, RequestRecord, begun_record
from parser.service.stages import Stage, StageByte
from parser.system.interruption import handled_by_loop

SECONDS_TO_BREAK_OFF = 1.0
"""Time for requests that are broken off to say so to their clients."""
SECONDS_TO_CONNECT = 0.05
"""Time for accepted sockets to become connections: some turns of the loop."""
MAX_HEADERS = 1 << 16
"""Maximum bytes of the headers and the address."""
PIECE = 1 << 14
"""Bytes that are read at once. Hundreds of small requests fit in, which take milliseconds."""
HEAD = re.compile(rb"HTTP/1\.1 [2-5]")
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
STREAMS = {
    b"\r\ncontent-type: application/x-ndjson\r\n": (b"}\n\r\n", Stage.BETWEEN_LINES),
    b"\r\ncontent-type: text/x-conllu": (b"\n\n\r\n", Stage.BETWEEN_SENTENCES),
}
"""How a chunk ends after which another one may follow, and the stage, by a header of the answer."""
ABSOLUTE = re.compile(rb"https?://(?P<host>[^/]*)(?P<path>.*)", re.IGNORECASE)
"""The absolute form of a target (`GET http://host/live HTTP/1.1`), which servers have to accept, and which
takes precedence over the header Host: see RFC 9112, section 3.2.2."""
SECONDS_TO_READ = 5.0
"""Time for reading the end of the answer after the time of the request is over."""
MOST_DROPPED = 1 << 26
"""Bytes of a request that are read and dropped after the answer."""


class Server(uvicorn.Server):
    """Serves until a signal arrives, and then returns normally."""

    def __init__(
        self,
        application: ASGIApp,
        admission: Admission,
        seconds: float,
        grace: float,
        keep_alive: int,
        logger: Logger,
        stage_of: Callable[[int], StageByte] = lambda descriptor: bytearray(1),
    ):
        """seconds, stage_of: see `ClientConnection`. grace: seconds in which running requests can finish;
        then they are broken off. keep_alive: seconds that a connection may wait for its next request.
        """

        async def served(scope: Scope, receive: Receive, send: Send) -> None:
            with suppress(asyncio.CancelledError):  # uvicorn would log it as a fault
                await application(scope, receive, send)

        config = uvicorn.Config(
            served,
            loop="asyncio",  # other loops do not call `accept` of our sockets
            http=cast(type[ClientConnection], partial(ClientConnection, seconds, logger, stage_of)),
            ws="none",
            log_config=None,
            access_log=False,
            lifespan="on",
            server_header=False,
            proxy_headers=False,  # the client's address is not used
            timeout_keep_alive=keep_alive,
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


class ClientConnection(HttpToolsProtocol):
    """uvicorn's protocol. uvicorn itself would wait without a limit for headers and for clients that do not
    read, would accept headers of any size, and would reset the connections of clients that send too much.
    """

    def __init__(self, seconds: float, logger: Logger, stage_of: Callable[[int], StageByte], **given: Any):
        """seconds: for the headers of a request, and again from there to the end of the answer. logger: for
        what is not valid HTTP. stage_of: returns where the stage of a connection is noted, by its descriptor.
        given: the arguments of uvicorn.
        """
        super().__init__(**given)
        self._seconds, self._log, self._stage_of = seconds, logger, stage_of
        self._end: asyncio.TimerHandle | None = None
        """The timer that ends the connection, or goes on until `_ends_at`: it is not set for each request."""
        self._ends_at = 0.0
        self._arrives: Literal["nothing", "headers", "body", "no HTTP"] = "nothing"
        self._head = 0
        """Bytes of the headers that are arriving, and of the address before them."""
        self._unread = memoryview(b"")
        """What has arrived while an earlier request of the connection was waiting for its turn."""

    def connection_made(self, transport: Any) -> None:
        def is_sending() -> bool:
            """Whether the client may still be sending a request that has begun, or that is not valid."""
            return self._arrives in ("body", "no HTTP")

        stage = self._stage_of(transport.get_extra_info("socket").fileno())
        self._closing = LingeringTransport(transport, stage, is_sending)
        super().connection_made(cast(asyncio.Transport, self._closing))
        self._end_in(self._seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._end:
            self._end.cancel()
        self._closing.forget_stage()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.timeout_keep_alive_task:  # the next request begins
            self._end_in(self._seconds)
        if self._is_idle:
            self._closing.note(Stage.ASKED)
        self._unread = memoryview(bytes(self._unread) + data if self._unread else data)
        self._read()

    def _read(self) -> None:
        """Read what has arrived, in pieces: in one piece there could be thousands of requests."""
        while self._unread and not self.pipeline:
            if self._arrives == "no HTTP" or self.transport.is_closing():
                self._closing.drop(len(self._unread))
                self._unread = memoryview(b"")
                return
            size = min(PIECE, MAX_HEADERS + 1 - self._head)
            piece, self._unread = self._unread[:size], self._unread[size:]
            super().data_received(piece)  # type: ignore[arg-type]
            self._head = self._head + len(piece) if self._arrives == "headers" else 0
            if self._head > MAX_HEADERS:
                self._refuse_head()
        if self.pipeline:
            self.flow.pause_reading()

    def on_message_begin(self) -> None:
        self._arrives, self._head = "headers", 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._arrives = "body"
        if target := ABSOLUTE.fullmatch(self.url):
            self.url = target["path"] or b"/"
            self.headers[:] = [(name, value) for name, value in self.headers if name != b"host"]
            self.headers.append((b"host", target["host"]))
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._arrives = "nothing"
        super().on_message_complete()

    def on_response_complete(self) -> None:
        self._closing.send_head()
        super().on_response_complete()
        self._read()
        if self._is_idle:
            self._closing.note(Stage.IDLE)

    def _start_asgi_task(self, *given: Any) -> None:
        self._end_in(self._seconds + SECONDS_TO_READ)
        super()._start_asgi_task(*given)

    def shutdown(self) -> None:
        if self._closing.lingers:
            self.transport.abort()
        else:
            super().shutdown()

    def send_400_response(self, msg: str) -> None:
        self._refuse(HTTPStatus.BAD_REQUEST, msg)

    def _refuse_head(self) -> None:
        if len(self.url) < MAX_HEADERS // 2:
            message = f"the headers have more than {MAX_HEADERS:,} bytes"
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, message)
        else:
            message = (
                f"the address has more than {MAX_HEADERS:,} bytes; "
                "send the parameters by POST, in the body of the request"
            )
            self._refuse(HTTPStatus.REQUEST_URI_TOO_LONG, message)

    @property
    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def _is_idle(self) -> bool:
        """Whether the next request has not begun to arrive."""
        return self._arrives == "nothing" and not self._is_answering

    def _end_in(self, seconds: float) -> None:
        self._ends_at = self.loop.time() + seconds
        if not self._end or self._end.when() > self._ends_at:
            self._end_at(self._ends_at)

    def _end_at(self, time: float) -> None:
        if self._end:
            self._end.cancel()
        self._end = self.loop.call_at(time, self._end_unless_idle)

    def _end_unless_idle(self) -> None:
        """End what has taken too long; uvicorn itself closes connections that wait for the next request."""
        self._end = None
        if self.loop.time() < self._ends_at:  # a later request has more time
            self._end_at(self._ends_at)
            return
        is_idle = not self._is_answering and self._arrives in ("nothing", "headers")
        is_read = not self.transport.get_write_buffer_size()
        if self.transport.is_closing() or not is_idle or not is_read:
            self.transport.abort()
        elif not self.timeout_keep_alive_task:
            if self._arrives == "headers":
                message = f"the headers did not come within {self._seconds:g} seconds"
                self._refuse(HTTPStatus.REQUEST_TIMEOUT, message)
            self.transport.close()
            self._end_in(SECONDS_TO_READ)

    def _refuse(self, status: HTTPStatus, message: str) -> None:
        """Answer a request that is not valid HTTP, unless its answer has begun, and close the connection. If
        an earlier request is being answered, the connection is closed after that instead.
        """
        is_body = self._arrives == "body"
        self._arrives = "no HTTP"
        if self._is_answering:
            if is_body:
                self.cycle.disconnected = True
                self.cycle.message_event.set()
            else:
                self.cycle.keep_alive = False
            if self.pipeline or not is_body:
                return
        if not (is_body and self.cycle.response_started):
            record = begun_record(cast(Scope, self.cycle.scope)) if is_body else RequestRecord("other")
            record.status = status
            named = {IDENTIFIER_HEADER.decode(): record.identifier}
            self.transport.write(plain_answer(status, message, named))
            if not is_body:  # the application logs the requests that have reached it
                tell(self._log, "request", **record.told())
        self.transport.close()


class LingeringTransport:
    """A transport whose `close` ends the answer, and first reads what the client still sends. Whoever uses it
    aborts it if the client neither reads nor closes. It notes the stage of the connection.
    """

    def __init__(self, transport: asyncio.Transport, stage: StageByte, is_sending: Callable[[], bool]):
        """is_sending: returns whether the client is still sending its request."""
        self._transport, self._stage, self._is_sending = transport, stage, is_sending
        self._stream: tuple[bytes, Stage] | None = None
        """See `STREAMS`; None if the answer that was begun last is none."""
        self.note(Stage.IDLE)
        self._dropped = 0
        self._head = b""
        """Headers that have not been sent."""
        self.lingers = False
        """Whether what the client sends is to be passed to `drop`."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        return self.lingers or self._transport.is_closing()

    def write(self, content: bytes) -> None:
        """Send content, or keep the headers of an answer, to send them together with what follows them."""
        if HEAD.match(content) and content.endswith(b"\r\n\r\n"):
            self._head = content
            self._stream = next((how for header, how in STREAMS.items() if header in content), None)
            return
        self._stage[0] = Stage.ANSWERING
        self._transport.write(self._head + content)
        self._head = b""
        if content == CONTINUE:
            self.note(Stage.ASKED)
        elif self._stream and content.endswith(self._stream[0]):
            self.note(self._stream[1])

    def note(self, stage: Stage) -> None:
        """Note a stage in which all bytes of answers have been sent, if they have."""
        self._stage[0] = Stage.ANSWERING if self._transport.get_write_buffer_size() else stage

    def forget_stage(self) -> None:
        """Note nothing any more: after the connection is closed, the stage may be that of another one."""
        self._stage = bytearray(1)

    def send_head(self) -> None:
        """Send headers that nothing follows."""
        if self._head:
            self.write(b"")

    def close(self) -> None:
        if self.is_closing():
            return
        self.send_head()
        if not self._is_sending():
            self._transport.close()
            return
        self.lingers = True
        self._transport.resume_reading()
        try:
            self._transport.write_eof()
        except OSError:  # the client is gone
            self._transport.abort()

    def drop(self, size: int) -> None:
        """Drop so many bytes that the client has sent after the answer."""
        self._dropped += size
        if self._dropped > MOST_DROPPED:
            self._transport.close()
