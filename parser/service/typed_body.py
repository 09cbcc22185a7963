"""The body of a typed request: JSON that is read and validated outside of the event loop."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator
from functools import partial
from http import HTTPStatus
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import TypeAdapter, ValidationError
from python_multipart.multipart import parse_options_header
from starlette.responses import Response

from parser.service.json_reader import JSONReader
from parser.service.limits import RefusedError
from parser.service.short_pauses import ReadingThreads
from parser.service.typed_messages import GivenSentence, ParseRequest
from parser.system.settings import unknown_key
from parser.treebank.columns import BLANK

JSON, OTHER_JSON = b"application/json", b"+json"
SENTENCE: TypeAdapter[GivenSentence] = TypeAdapter(GivenSentence)
Place = tuple[str | int, ...]
"""The keys and numbers that lead to a value."""


def route_that_reads_by(threads: ReadingThreads) -> type[APIRoute]:
    """Return a class of routes whose function takes a request and its parsed body.

    FastAPI itself would read the body in the event loop.
    """

    class TypedRoute(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            async def handle(request: Request) -> Response:
                _refuse_other_types(request)
                body = await request.body()
                wanted = await threads.run(len(body), partial(_read, body))
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


class GivenSentences:
    """The sentences in a body. They stay text and are read again each time, to bound memory."""

    def __init__(self, reader: JSONReader):
        """Read a list of sentences for the first time. Raises RequestValidationError and ValueError."""
        self._text, self._place = reader.text, reader.place
        self.have_trees = False
        """Whether a head or a label is given."""
        for number, _ in enumerate(reader.items()):
            sentence = reader.value()
            place = "sentences", number
            if isinstance(sentence, dict):
                _refuse_unknown(sentence, GivenSentence.__annotations__, place)
            try:
                SENTENCE.validate_python(sentence)
            except ValidationError as error:
                raise _faulty(error, place) from None
            given = *(sentence.get("heads") or ()), *(sentence.get("labels") or ())
            self.have_trees |= any(value not in (None, BLANK) for value in given)

    def __iter__(self) -> Iterator[GivenSentence]:
        reader = JSONReader(self._text, self._place)
        return (reader.value() for _ in reader.items())


def _read(body: bytes) -> ParseRequest:
    """Return the request in a body. Raises RequestValidationError."""
    try:
        return _request(JSONReader(body.decode()))
    except ValidationError as error:
        raise _faulty(error) from None
    except ValueError as error:
        told = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
        raise _fault((), f"Invalid JSON: {told}") from None


def _request(reader: JSONReader) -> ParseRequest:
    found: dict[str, Any] = {}
    for key in reader.members():
        _refuse_unknown([key], ParseRequest.model_fields)
        found[key] = GivenSentences(reader) if key == "sentences" and reader.is_at_list else reader.value()
    reader.end()
    wanted = ParseRequest.model_validate(found)
    if isinstance(wanted.sentences, GivenSentences):
        if wanted.sentences.have_trees and wanted.keep is None:
            raise _fault((), 'heads and labels are given, but not kept: add "keep": "given"')
    elif wanted.sentences is not None:
        raise _fault(("sentences",), "Input should be a valid list")
    return wanted


def _refuse_unknown(keys: Iterable[str], known: Collection[str], place: Place = ()) -> None:
    """Raises RequestValidationError for the first key that is not known."""
    for key in keys:
        if key not in known:
            raise _fault((*place, key), unknown_key(key, known))


def _faulty(error: ValidationError, place: Place = ()) -> RequestValidationError:
    """Return the first faults with their places. place: that of what was validated."""
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    told = [
        {**fault, "loc": ("body", *place, *fault["loc"]), "msg": fault["msg"].removeprefix("Value error, ")}
        for fault in faults
    ]
    return RequestValidationError(told)


def _fault(place: Place, message: str) -> RequestValidationError:
    return RequestValidationError([{"loc": ("body", *place), "msg": message}])
