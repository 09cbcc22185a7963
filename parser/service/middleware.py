"""The middleware (ASGI) that each request passes, in this order.

It is around FastAPI's application, not in it, where it would follow FastAPI's own middleware.
"""

from __future__ import annotations

import hmac
from asyncio import CancelledError
from codecs import BOM_UTF8
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from logging import Logger
from pathlib import Path

from fastapi.exceptions import RequestValidationError
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from parser.service.answer import FAILED
from parser.service.error_forms import RETRY_AFTER
from parser.service.limits import STOPPING, LimitedBody
from parser.service.log import tell
from parser.service.operation import LIVE, METRICS, READY, Metrics
from parser.service.request_record import IDENTIFIER_HEADER, begun_record, record_of
from parser.service.service import Service
from parser.service.typed_protocol import PARSE
from parser.system.console import shortened
from parser.system.files import content_of
from parser.system.settings import FAULTS_SHOWN, MAX_KEY, more_faults
from parser.system.version import __version__

QUIET = {LIVE, READY, METRICS}
"""Paths that are requested all the time, and not logged."""
DIGEST_HEADER, VERSION_HEADER = b"x-model-digest", b"x-parser-version"
"""What trees come from. Proxies replace the header Server, which would be the usual one for a version."""
SCHEME = "bearer"
MIN_LENGTH = 16
"""Minimum characters of a token. Shorter tokens can be guessed."""
Handler = Callable[[Request], Awaitable[Response]]


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


class Recording:
    """Creates the record of each request, for the log and the metrics. HEAD is answered like GET."""

    def __init__(self, app: ASGIApp, metrics: Metrics, logger: Logger, digests: Mapping[str, str]):
        """digests: the hashes of models by their names, which are told with their trees."""
        self._app, self._metrics, self._logger, self._digests = app, metrics, logger, digests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["method"] == "HEAD":  # answered like GET, without the content: see RFC 9110, section 9.3.2
            scope = {**scope, "method": "GET"}  # a copy: the server, which sends no content, sees HEAD
        record = begun_record(scope)

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                record.status = message["status"]
                told = [(IDENTIFIER_HEADER, record.identifier.encode())]
                if record.model:
                    told.append((DIGEST_HEADER, self._digests[record.model].encode()))
                    told.append((VERSION_HEADER, __version__.encode()))
                message = {**message, "headers": [*message["headers"], *told]}
            await send(message)

        async def say(status: HTTPStatus, message: str, headers: Mapping[str, str] | None = None) -> None:
            if not record.status:
                await refusal(scope["path"], status, message, headers)(scope, receive, noted)

        try:
            await self._app(scope, receive, noted)
        except ClientDisconnect:
            record.outcome = "gone"
        except CancelledError:
            record.outcome = "broken off"
            await say(HTTPStatus.SERVICE_UNAVAILABLE, STOPPING, RETRY_AFTER)
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


def invalid(error: RequestValidationError) -> Response:
    """Return an answer that says what is wrong and where, without quoting the text."""
    errors = error.errors()
    faults = [
        f"{shortened('.'.join(map(str, fault['loc'])), MAX_KEY)}: {fault['msg']}"
        for fault in errors[:FAULTS_SHOWN]
    ]
    detail = "; ".join([*faults, *more_faults(len(errors) - len(faults))])
    return JSONResponse({"detail": detail}, HTTPStatus.UNPROCESSABLE_ENTITY)


class Dispatcher:
    """Requires tokens, limits bodies, and answers the requests that most clients send. The application below
    takes longer to find its routes and to call them.
    """

    def __init__(
        self,
        app: ASGIApp,
        service: Service,
        handlers: Mapping[tuple[str, str], Handler],
        tokens: Sequence[bytes],
        is_public: Callable[[str], bool],
    ):
        """handlers: what answers a request, by its method and its path. tokens: if there are any, one is
        needed for each path that is not public, as a bearer token (RFC 6750).
        """
        self._app, self._limits, self._admission = app, service.limits, service.admission
        self._handlers, self._tokens, self._is_public = handlers, tokens, is_public

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers, path = Headers(scope=scope), scope["path"]
        if self._tokens and not (self._has_token(headers) or self._is_public(path)):
            message = "a token is needed: send the header Authorization: Bearer TOKEN"
            refused = {"WWW-Authenticate": "Bearer"}
            await PlainTextResponse(message, HTTPStatus.UNAUTHORIZED, refused)(scope, receive, send)
            return
        body = LimitedBody(receive, headers, record_of(scope), self._limits, self._admission)
        handler = self._handlers.get((scope["method"], path))
        try:
            if not handler:
                await self._app(scope, body.receive, send)
                return
            record_of(scope).path = path
            try:
                answer = await handler(Request(scope, body.receive))
                await answer(scope, body.receive, send)
            except HTTPException as error:
                await refusal(path, error.status_code, error.detail, error.headers)(scope, receive, send)
            except RequestValidationError as error:
                await invalid(error)(scope, receive, send)
        finally:
            body.release()

    def _has_token(self, headers: Headers) -> bool:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        given = token.strip().encode("latin-1", "replace")
        # All tokens are compared, so that the time reveals nothing.
        matches = [hmac.compare_digest(given, each) for each in self._tokens]
        return scheme.lower() == SCHEME and any(matches)


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
