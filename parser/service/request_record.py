"""The record of a request, for the log and for metrics. It contains no text of users."""

from __future__ import annotations

import json
import re
import traceback
from dataclasses import dataclass, field
from random import getrandbits
from time import monotonic
from typing import Any

from starlette.types import Scope

STATE, RECORD = "state", "record"
IDENTIFIER_HEADER = b"x-request-id"
IDENTIFIER = re.compile(rb"[A-Za-z0-9._-]{1,64}")
"""What is taken over from a client: it is written into the log as it is."""


@dataclass
class RequestRecord:
    method: str
    """`other` if what was sent is not valid HTTP."""
    identifier: str = field(default_factory=lambda: f"{getrandbits(64):016x}")
    """What the client or the service calls the request: `X-Request-ID`."""
    began: float = field(default_factory=monotonic)
    path: str = "other"
    """Path of the route; `other` if the service has no such path."""
    status: int = 0
    """HTTP status of the answer; 0 if there was no answer."""
    outcome: str = "done"
    """Otherwise `gone` if the client disconnected, `broken off`, or `failed`."""
    model: str = ""
    sentences: int = 0
    words: int = 0
    """Number of parsed words."""
    first_tree: float | None = None
    """Seconds until the first tree was parsed."""
    warnings: list[str] = field(default_factory=list)
    """Warnings about columns that the model reads and that the input lacks."""
    error: str = ""
    """Class of the error and where it was raised, without its message, which may quote a text."""

    @classmethod
    def of(cls, scope: Scope) -> RequestRecord:
        """Return the record of a request that begins, with the identifier in its headers if that is plain."""
        for name, value in scope["headers"]:
            if name == IDENTIFIER_HEADER and IDENTIFIER.fullmatch(value):
                return cls(scope["method"], value.decode())
        return cls(scope["method"])

    @property
    def seconds(self) -> float:
        return monotonic() - self.began

    def add(self, sentences: int, words: int) -> None:
        """Count parsed sentences and words."""
        if self.first_tree is None:
            self.first_tree = self.seconds
        self.sentences += sentences
        self.words += words

    @property
    def warnings_in_json(self) -> str:
        """The warnings as the last field of a JSON object; empty if there are none."""
        return f', "warnings": {json.dumps(self.warnings, ensure_ascii=False)}' if self.warnings else ""

    def fail(self, error: BaseException) -> None:
        cause = error.__cause__ or error
        lines = [f"{frame.filename}:{frame.lineno}" for frame in traceback.extract_tb(cause.__traceback__)]
        self.outcome, self.error = "failed", f"{type(cause).__name__} at {' < '.join(reversed(lines[-5:]))}"

    def told(self) -> dict[str, Any]:
        """Return the fields of the request's line in the log."""
        told = {
            "request_id": self.identifier,
            "method": self.method,
            "path": self.path,
            "status": self.status,
            "outcome": self.outcome,
            "seconds": round(self.seconds, 4),
        }
        if self.model:
            told |= {"model": self.model, "sentences": self.sentences, "words": self.words}
        if self.first_tree is not None:
            told["first_tree_seconds"] = round(self.first_tree, 4)
        if self.warnings:
            told["warnings"] = self.warnings
        return told | ({"error": self.error} if self.error else {})


def begun_record(scope: Scope) -> RequestRecord:
    """Return the record of a request, a new one if there is none."""
    if RECORD not in scope.get(STATE, {}):
        put_record(scope, RequestRecord.of(scope))
    return record_of(scope)


def put_record(scope: Scope, record: RequestRecord) -> None:
    scope.setdefault(STATE, {})[RECORD] = record


def record_of(scope: Scope) -> RequestRecord:
    record: RequestRecord = scope[STATE][RECORD]
    return record
