"""The body of a typed request: JSON that is read and validated outside of the event loop.

It is read value by value, so that other threads run meanwhile and a long list need not be in memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator
from functools import partial
from http import HTTPStatus
from json import JSONDecodeError, JSONDecoder
from json.scanner import py_make_scanner  # type: ignore[attr-defined]
from typing import Any, NoReturn

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import TypeAdapter, ValidationError
from python_multipart.multipart import parse_options_header
from starlette.responses import Response

from parser.service.limits import RefusedError
from parser.service.short_pauses import ReadingThreads
from parser.service.typed_messages import GivenSentence, ParseRequest
from parser.system.settings import unknown_key
from parser.treebank.sentence import BLANK

JSON, OTHER_JSON = b"application/json", b"+json"
SENTENCE: TypeAdapter[GivenSentence] = TypeAdapter(GivenSentence)
MOST_DIGITS = 1_000
"""Reading digits takes time quadratic in their number."""
BLANKS = re.compile(r"[ \t\n\r]*")
Path = tuple[str | int, ...]
"""The keys and numbers that lead to a value."""


def route_that_reads_by(threads: ReadingThreads) -> type[APIRoute]:
    """Return a class of routes whose function takes a request and its parsed body.

    FastAPI itself would read the body in the event loop.
    """

    class TypedRoute(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            async def handle(request: Request) -> Response:
                kind, _ = parse_options_header(request.headers.get("content-type"))
                if kind != JSON and not kind.endswith(OTHER_JSON):
                    # Pages of any origin could send it unasked.
                    message = f"send JSON, with the header Content-Type: {JSON.decode()}"
                    raise RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, message)
                body = await request.body()
                wanted = await threads.run(len(body), partial(_request_in, body))
                answer: Response = await self.endpoint(request, wanted)
                return answer

            return handle

    return TypedRoute


def _request_in(body: bytes) -> ParseRequest:
    """Return the request in a body. Raises RequestValidationError."""
    values: dict[str, Any] = {}
    try:
        reader = JSONReader(body.decode())
        for key in reader.members():
            _refuse_unknown([key], ParseRequest.model_fields)
            is_list = key == "sentences" and reader.is_at_list
            values[key] = GivenSentences(reader) if is_list else reader.value()
        reader.end()
        wanted = ParseRequest.model_validate(values)
    except ValidationError as error:
        raise _faulty(error) from None
    except ValueError as error:
        told = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
        raise _fault((), f"Invalid JSON: {told}") from None
    if isinstance(wanted.sentences, GivenSentences):
        if wanted.sentences.have_trees and wanted.keep is None:
            raise _fault((), 'heads and labels are given, but not kept: add "keep": "given"')
    elif wanted.sentences is not None:
        raise _fault(("sentences",), "Input should be a valid list")
    return wanted


class GivenSentences:
    """The sentences in a body. They stay text and are read again each time, to bound memory."""

    def __init__(self, reader: JSONReader):
        """Read a list of sentences for the first time. Raises RequestValidationError and ValueError."""
        self._text, self._position = reader.text, reader.position
        self.have_trees = False
        """Whether a head or a label is given."""
        for number, _ in enumerate(reader.items()):
            sentence = reader.value()
            path = "sentences", number
            if isinstance(sentence, dict):
                _refuse_unknown(sentence, GivenSentence.__annotations__, path)
            try:
                SENTENCE.validate_python(sentence)
            except ValidationError as error:
                raise _faulty(error, path) from None
            given = *(sentence.get("heads") or ()), *(sentence.get("labels") or ())
            self.have_trees |= any(value not in (None, BLANK) for value in given)

    def __iter__(self) -> Iterator[GivenSentence]:
        reader = JSONReader(self._text, self._position)
        return (reader.value() for _ in reader.items())


def _refuse_unknown(keys: Iterable[str], known: Collection[str], path: Path = ()) -> None:
    """Raises RequestValidationError for the first key that is not known."""
    for key in keys:
        if key not in known:
            raise _fault((*path, key), unknown_key(key, known))


def _faulty(error: ValidationError, path: Path = ()) -> RequestValidationError:
    """Return the first faults with their paths. path: that of what was validated."""
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    told = [
        {**fault, "loc": ("body", *path, *fault["loc"]), "msg": fault["msg"].removeprefix("Value error, ")}
        for fault in faults
    ]
    return RequestValidationError(told)


def _fault(path: Path, message: str) -> RequestValidationError:
    return RequestValidationError([{"loc": ("body", *path), "msg": message}])


class JSONReader:
    """A position in a text, moved on as values are read. Every method raises ValueError for other text."""

    def __init__(self, text: str, position: int = 0):
        self.text, self.position = text, position
        self._skip_blanks()

    @property
    def is_at_list(self) -> bool:
        return self._is_at("[")

    def value(self) -> Any:
        """Return the value at this position."""
        try:
            value, self.position = _DECODER.raw_decode(self.text, self.position)
        except RecursionError:
            raise ValueError("lists and objects are nested too deeply") from None
        self._skip_blanks()
        return value

    def items(self) -> Iterator[None]:
        """Yield when the position is that of the next item of a list. The caller reads the item."""
        self._take("[", "a list")
        if self._is_at("]"):
            self._take("]")
            return
        yield
        while self._is_at(","):
            self._take(",")
            yield
        self._take("]", "`,` or `]`")

    def members(self) -> Iterator[str]:
        """Yield the next key of an object when the position is that of its value, which the caller reads."""
        self._take("{", "an object")
        if self._is_at("}"):
            self._take("}")
            return
        yield self._key()
        while self._is_at(","):
            self._take(",")
            yield self._key()
        self._take("}", "`,` or `}`")

    def end(self) -> None:
        """Raises ValueError if anything follows."""
        if self.position < len(self.text):
            raise JSONDecodeError("Extra data", self.text, self.position)

    def _key(self) -> str:
        if not self._is_at('"'):
            raise JSONDecodeError("Expecting a key in quotes", self.text, self.position)
        key: str = self.value()
        self._take(":", "`:`")
        return key

    def _is_at(self, sign: str) -> bool:
        return self.text.startswith(sign, self.position)

    def _take(self, sign: str, wanted: str = "") -> None:
        if not self._is_at(sign):
            raise JSONDecodeError(f"Expecting {wanted}", self.text, self.position)
        self.position += len(sign)
        self._skip_blanks()

    def _skip_blanks(self) -> None:
        blanks = BLANKS.match(self.text, self.position)
        assert blanks
        self.position = blanks.end()


class _Decoder(JSONDecoder):
    """Python's decoder without its part in C, which reads megabytes in one call, while all threads wait."""

    def __init__(self) -> None:
        def integer(digits: str) -> int:
            if len(digits) > MOST_DIGITS:
                raise ValueError(f"a number has more than {MOST_DIGITS:,} digits")
            return int(digits)

        def refuse_constant(name: str) -> NoReturn:
            raise ValueError(f"{name} is not JSON")

        super().__init__(parse_constant=refuse_constant, parse_int=integer)
        self.scan_once = py_make_scanner(self)


_DECODER = _Decoder()
