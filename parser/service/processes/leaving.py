"""Kept-alive connections that leave a process, when another one has fewer."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Leaving:
    """Middleware of ASGI. Tells as many clients as it is asked to that their connection ends with the answer.

    They open new ones, which the supervisor gives to the process with the fewest.
    """

    def __init__(self, app: ASGIApp):
        self._app, self._surplus = app, 0

    def release(self) -> None:
        """One more should leave."""
        self._surplus += 1

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def marked(message: Message) -> None:
            if self._surplus and message["type"] == "http.response.start":
                self._surplus -= 1
                message = {**message, "headers": [*message["headers"], (b"connection", b"close")]}
            await send(message)

        await self._app(scope, receive, marked)
