"""Refuses bodies that are compressed or otherwise encoded."""

from __future__ import annotations

from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from parser.service.limits import RefusedError

IDENTITY = "identity"


class ContentCodings:
    """ASGI middleware. Reading an encoded body raises RefusedError."""

    def __init__(self, app: ASGIApp):
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def refused() -> Message:
            message = f"the body has the Content-Encoding {', '.join(sorted(codings))}; send it without one"
            raise RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, message, {"Accept-Encoding": IDENTITY})

        codings = _codings(scope) if scope["type"] == "http" else set()
        await self._app(scope, refused if codings else receive, send)


def _codings(scope: Scope) -> set[str]:
    """The codings of the body in lower case, except for `identity`, which changes nothing."""
    given = ",".join(Headers(scope=scope).getlist("content-encoding")).lower()
    return {coding.strip() for coding in given.split(",")} - {"", IDENTITY}
