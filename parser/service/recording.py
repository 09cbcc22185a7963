"""Records each request in the log and in the metrics."""

from __future__ import annotations

from asyncio import CancelledError
from http import HTTPStatus
from logging import Logger

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from parser.service.answer import FAILED
from parser.service.log import tell
from parser.service.metrics import Metrics
from parser.service.operation import LIVE, METRICS, READY
from parser.service.refusals import refusal
from parser.service.request_record import RequestRecord, put_record

QUIET = {LIVE, READY, METRICS}
"""Paths that are requested all the time, and not logged."""


class Recording:
    """ASGI middleware that creates the record of each request."""

    def __init__(self, app: ASGIApp, metrics: Metrics, logger: Logger):
        self._app, self._metrics, self._logger = app, metrics, logger

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        record = RequestRecord(scope["method"])
        put_record(scope, record)

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                record.status = message["status"]
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
