"""Answers HEAD requests wherever there is GET: see RFC 9110, section 9.3.2."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send


class HeadRequests:
    """ASGI middleware that answers HEAD like GET, but without the content."""

    def __init__(self, app: ASGIApp):
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "HEAD":
            scope = {**scope, "method": "GET"}  # a copy: the server, which sends no content, sees HEAD
        await self._app(scope, receive, send)
