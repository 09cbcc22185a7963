"""The body of a typed request: JSON that is read and validated outside of the event loop."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from http import HTTPStatus
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import ValidationError
from pydantic_core import ErrorDetails
from python_multipart.multipart import parse_options_header
from starlette.responses import Response

from parser.config.errors import unknown_key
from parser.service.admission import Admission
from parser.service.limits import RefusedError
from parser.service.reading_thread import ReadingThread
from parser.service.typed_messages import GivenSentence, ParseRequest

JSON, OTHER_JSON = b"application/json", b"+json"


def route_that_reads_by(thread: ReadingThread, admission: Admission) -> type[APIRoute]:
    """Return a class of routes whose function takes a request and its parsed body.

    FastAPI itself would read the body in the event loop. A request that would be refused later is refused
    before its body is read.
    """

    class TypedRoute(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            async def handle(request: Request) -> Response:
                _refuse_other_types(request)
                admission.refuse_if_full()
                body = await request.body()
                wanted = await thread.run(len(body), partial(_read, body))
                answer: Response = await self.endpoint(request, wanted)
                return answer

            return handle

    return TypedRoute


def _refuse_other_types(request: Request) -> None:
    """Raises RefusedError for a content type other than JSON: pages of any origin could send it unasked."""
    kind, _ = parse_options_header(request.headers.get("content-type"))
    if kind != JSON and not kind.endswith(OTHER_JSON):
        message = f"send JSON, with the header Content-Type: {JSON.decode()}"
        raise RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, message)


def _read(body: bytes) -> ParseRequest:
    """Return the request in a body. Raises RequestValidationError."""
    try:
        return ParseRequest.model_validate_json(body)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False, include_input=False)
        raise RequestValidationError(list(map(_told, faults))) from None


def _told(fault: ErrorDetails) -> dict[str, Any]:
    *outer, key = fault["loc"] or ("",)
    message = fault["msg"].removeprefix("Value error, ")
    if fault["type"] == "extra_forbidden":
        known = GivenSentence.__annotations__ if outer else ParseRequest.model_fields
        message = unknown_key(str(key), known)
    return {**fault, "loc": ("body", *fault["loc"]), "msg": message}
