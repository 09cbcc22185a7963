"""The middleware (ASGI) that each request passes before its route, in this order; `limits.py` has the last,
`BodyLimit`."""

from __future__ import annotations

import hmac
import re
from asyncio import CancelledError
from codecs import BOM_UTF8
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from logging import Logger
from pathlib import Path
from urllib.parse import unquote

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from parser.service.answer import FAILED
from parser.service.limits import RefusedError
from parser.service.log import tell
from parser.service.operation import LIVE, METRICS, READY, Metrics
from parser.service.request_record import IDENTIFIER_HEADER, RequestRecord, put_record
from parser.service.typed_protocol import PARSE
from parser.system.files import content_of

QUIET = {LIVE, READY, METRICS}
"""Paths that are requested all the time, and not logged."""
SCHEME = "bearer"
MIN_LENGTH = 16
"""Minimum characters of a token. Shorter tokens can be guessed."""
IDENTITY = "identity"
ABSOLUTE = re.compile(rb"https?://(?P<host>[^/]*)(?P<path>.*)", re.IGNORECASE)


class Leaving:
    """Adds `Connection: close` to as many responses as requested.

    The clients open new connections, which the supervisor gives to the process with the fewest.
    """

    def __init__(self, app: ASGIApp):
        self._app, self._surplus = app, 0

    def release(self) -> None:
        """Request that one more connection is closed."""
        self._surplus += 1

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def marked(message: Message) -> None:
            if self._surplus and message["type"] == "http.response.start":
                self._surplus -= 1
                message = {**message, "headers": [*message["headers"], (b"connection", b"close")]}
            await send(message)

        await self._app(scope, receive, marked)


class AbsoluteTargets:
    """Replaces the absolute form of a target (`GET http://host/live HTTP/1.1`), which HTTP asks servers to
    accept, by the path and the header Host: see RFC 9112, section 3.2.2.
    """

    def __init__(self, app: ASGIApp):
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (target := ABSOLUTE.fullmatch(scope.get("raw_path") or b"")):
            path = target["path"] or b"/"
            headers = [(name, value) for name, value in scope["headers"] if name != b"host"]
            headers.append((b"host", target["host"]))
            scope = {**scope, "path": unquote(path.decode()), "raw_path": path, "headers": headers}
        await self._app(scope, receive, send)


class HeadRequests:
    """Answers HEAD like GET, but without the content: see RFC 9110, section 9.3.2."""

    def __init__(self, app: ASGIApp):
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "HEAD":
            scope = {**scope, "method": "GET"}  # a copy: the server, which sends no content, sees HEAD
        await self._app(scope, receive, send)


class Recording:
    """Creates the record of each request, for the log and the metrics."""

    def __init__(self, app: ASGIApp, metrics: Metrics, logger: Logger):
        self._app, self._metrics, self._logger = app, metrics, logger

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        record = RequestRecord.of(scope)
        put_record(scope, record)

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                record.status = message["status"]
                told = IDENTIFIER_HEADER, record.identifier.encode()
                message = {**message, "headers": [*message["headers"], told]}
            await send(message)

        async def say(status: HTTPStatus, message: str) -> None:
            if not record.status:
                await refusal(scope["path"], status, message)(scope, receive, noted)

        try:
            await self._app(scope, receive, noted)
        except ClientDisconnect:
            record.outcome = "gone"
        except CancelledError:
            record.outcome = "broken off"
            await say(HTTPStatus.SERVICE_UNAVAILABLE, "the service is being stopped")
            raise
        except Exception as error:
            record.fail(error)  # not raised: uvicorn would log its message. It breaks the answer off anyway
            await say(HTTPStatus.INTERNAL_SERVER_ERROR, FAILED)
        finally:
            if route := scope.get("route"):  # other paths may contain anything
                record.path = route.path
            self._metrics.add(record)
            if record.path not in QUIET:
                tell(self._logger, "request", **record.told())


def refusal(path: str, status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return the answer to a request that is refused: JSON or, by UDPipe's protocol, text."""
    if path == PARSE:
        return JSONResponse({"detail": message}, status, headers)
    return PlainTextResponse(f"{message}\n", status, headers)


class BearerTokens:
    """Requires a bearer token (RFC 6750), except for public paths."""

    def __init__(self, app: ASGIApp, tokens: Sequence[bytes], is_public: Callable[[str], bool]):
        self._app, self._tokens, self._is_public = app, tokens, is_public

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scheme, _, token = Headers(scope=scope).get("authorization", "").partition(" ")
        given = token.strip().encode("latin-1", "replace")
        # All tokens are compared, so that the time reveals nothing.
        matches = [hmac.compare_digest(given, each) for each in self._tokens]
        may_pass = scheme.lower() == SCHEME and any(matches)
        if may_pass or self._is_public(scope["path"]):
            await self._app(scope, receive, send)
            return
        message = "a token is needed: send the header Authorization: Bearer TOKEN"
        headers = {"WWW-Authenticate": "Bearer"}
        await PlainTextResponse(message, HTTPStatus.UNAUTHORIZED, headers)(scope, receive, send)


def read_tokens(path: Path) -> tuple[bytes, ...]:
    """Return the tokens of a file with one in each line. Raises ValueError if one is invalid or if there is
    none, and OSError.
    """
    content = content_of(path).removeprefix(BOM_UTF8)
    tokens = tuple(filter(None, map(bytes.strip, content.splitlines())))
    if not tokens:
        raise ValueError(f"{path}: there is no token in it; write one in each line")
    if any(len(token.split()) > 1 for token in tokens):
        raise ValueError(f"{path}: a token has a blank in it, so nobody could send it")
    if min(map(len, tokens)) < MIN_LENGTH:
        raise ValueError(f"{path}: a token has fewer than {MIN_LENGTH} characters, and could be guessed")
    return tokens


class ContentCodings:
    """Reading a body that is compressed or otherwise encoded raises RefusedError."""

    def __init__(self, app: ASGIApp):
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = Headers(scope=scope).getlist("content-encoding") if scope["type"] == "http" else []
        codings = {coding.strip() for coding in ",".join(given).lower().split(",")} - {"", IDENTITY}

        async def refused() -> Message:
            message = f"the body has the Content-Encoding {', '.join(sorted(codings))}; send it without one"
            raise RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, message, {"Accept-Encoding": IDENTITY})

        await self._app(scope, refused if codings else receive, send)
