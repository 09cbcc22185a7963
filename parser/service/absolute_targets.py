"""Requests that name the service in their target, as for a proxy: `GET http://host/live HTTP/1.1`."""

from __future__ import annotations

import re
from urllib.parse import unquote

from starlette.types import ASGIApp, Receive, Scope, Send

ABSOLUTE = re.compile(rb"https?://(?P<host>[^/]*)(?P<path>.*)", re.IGNORECASE)


class AbsoluteTargets:
    """ASGI middleware that replaces the absolute form of a target, which HTTP asks servers to accept, by the
    path and the header Host: see RFC 9112, section 3.2.2.
    """

    def __init__(self, app: ASGIApp):
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (found := ABSOLUTE.fullmatch(scope.get("raw_path") or b"")):
            path = found["path"] or b"/"
            headers = [(name, value) for name, value in scope["headers"] if name != b"host"]
            headers.append((b"host", found["host"]))
            scope = {**scope, "path": unquote(path.decode()), "raw_path": path, "headers": headers}
        await self._app(scope, receive, send)
