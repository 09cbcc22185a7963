"""Error messages in the form of each protocol."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import JSONResponse, PlainTextResponse, Response

from parser.service.typed_protocol import PARSE


def refusal(path: str, status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return the answer to a request that is refused. UDPipe's protocol uses plain text."""
    if path == PARSE:
        return JSONResponse({"detail": message}, status, headers)
    return PlainTextResponse(f"{message}\n", status, headers)
