"""Bearer tokens (RFC 6750): only clients with one of them may use the service."""

from __future__ import annotations

import hmac
from codecs import BOM_UTF8
from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from parser.service.operation import HEALTH
from parser.service.page import is_of_page
from parser.system.files import content_of

SCHEME = "bearer"
MIN_LENGTH = 16
"""Minimum characters of a token. Shorter tokens can be guessed."""


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


class BearerTokens:
    """ASGI middleware that requires a token, except for the health checks and the page of the service."""

    def __init__(self, app: ASGIApp, tokens: Sequence[bytes]):
        self._app, self._tokens = app, tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or _is_open(scope["path"]) or self._may_pass(Headers(scope=scope)):
            await self._app(scope, receive, send)
            return
        message = "a token is needed: send the header Authorization: Bearer TOKEN"
        headers = {"WWW-Authenticate": "Bearer"}
        await PlainTextResponse(message, HTTPStatus.UNAUTHORIZED, headers)(scope, receive, send)

    def _may_pass(self, headers: Headers) -> bool:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        given = token.strip().encode("latin-1", "replace")
        # All tokens are compared, so that the time reveals nothing.
        found = [hmac.compare_digest(given, each) for each in self._tokens]
        return scheme.lower() == SCHEME and any(found)


def _is_open(path: str) -> bool:
    return path in HEALTH or is_of_page(path)
