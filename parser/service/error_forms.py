"""The forms of an error: an answer in plain text, and the last line of a stream that has begun."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus

RETRY_AFTER = {"Retry-After": "1"}
"""Seconds."""
CONLLU_ERROR = "# error = "


def plain_answer(status: HTTPStatus, message: str, headers: Mapping[str, str] | None = None) -> bytes:
    """Return an answer of HTTP/1.1, after which the connection is closed."""
    content = f"{message}\n".encode()
    all_headers = {
        "Content-Type": "text/plain; charset=utf-8",
        "Content-Length": str(len(content)),
        "Connection": "close",
        **(headers or {}),
    }
    lines = [f"HTTP/1.1 {status} {status.phrase}", *(f"{name}: {text}" for name, text in all_headers.items())]
    return "\r\n".join([*lines, "", ""]).encode() + content


def error_in_ndjson(status: int, detail: str) -> bytes:
    return f"{json.dumps({'detail': detail, 'status': status}, ensure_ascii=False)}\n".encode()


def error_in_conllu(status: int, detail: str) -> bytes:
    """A comment without a sentence, and without the blank line that ends one."""
    return f"{CONLLU_ERROR}{status}: {' '.join(detail.split())}\n".encode()
