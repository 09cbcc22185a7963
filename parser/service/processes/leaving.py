"""Moves kept-alive connections away from a process when another process has fewer."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Leaving:
    """ASGI middleware that adds `Connection: close` to as many responses as requested.

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
