"""The REST protocol of UDPipe, https://lindat.mff.cuni.cz/services/udpipe/api-reference.php."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from urllib.parse import parse_qsl

from python_multipart import MultipartParser
from python_multipart.exceptions import MultipartParseError
from python_multipart.multipart import parse_options_header
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Scope

from parser.service.limits import wrong
from parser.service.parsing import Input, ParsedSentence
from parser.service.reading import PIECE, ReadSentence, normalized, read_in_advance, text_sentences
from parser.service.request_record import record_of
from parser.service.served_models import ServedModel
from parser.service.service import Service
from parser.service.udpipe_formats import CONLLU, MODEL, PROGRAM, Spaces, Write, sentences_in, writer_of
from parser.system.version import __version__
from parser.treebank.text.reading import TextFormat

MODELS, PROCESS = "/models", "/process"
JSON = "application/json"
TOKENIZER, TAGGER, PARSER = "tokenizer", "tagger", "parser"
NONE = "none"
"""The value of `tagger` and `parser` that means the same as leaving the parameter out."""
PRESEGMENTED, RANGES, NORMALIZED = "presegmented", "ranges", "normalized_spaces"
"""Options of the tokenizer. With the first one, each line is a sentence; see `Spaces` for the other two."""
LINE_OF_TEXT = re.compile(r"^(?!#).*\S", re.MULTILINE)
"""A line that is not a comment."""
URLENCODED, MULTIPART = b"application/x-www-form-urlencoded", b"multipart/form-data"
MAX_FIELDS = 100
Parameters = Mapping[str, str]


def udpipe_routes(service: Service) -> list[BaseRoute]:

    async def models(_: Request) -> JSONResponse:
        told = {model.name: _components(model) for model in service.models}
        return JSONResponse({"models": told, "default_model": service.models.default.name})

    async def process(request: Request) -> Response:
        try:
            parameters = await _parameters(request, service)
            if "data" not in parameters:
                raise wrong("the parameter data is needed")
            return _answer(request, service, parameters)
        except ValueError as error:
            raise wrong(str(error)) from None

    methods = ["GET", "POST"]
    return [_NotedRoute(PROCESS, process, methods=methods), _NotedRoute(MODELS, models, methods=methods)]


class _NotedRoute(Route):
    """A route of Starlette: FastAPI's routes are slower, as they read and validate declared parameters.

    Like them, it puts itself into the scope for the record of the request; not all versions of Starlette do.
    """

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        match, found = super().matches(scope)
        return match, {**found, "route": self}


def _components(model: ServedModel) -> list[str]:
    has = {TOKENIZER: model.has_tokenizer, TAGGER: model.predicts, PARSER: True}
    return [name for name, is_there in has.items() if is_there]


async def _parameters(request: Request, service: Service) -> Parameters:
    """Return the parameters of the query and the body; the body takes precedence. Raises RefusedError."""
    query = urlencoded(request.scope["query_string"].decode())
    body = await request.body()  # refuses one that is too large, also that of a GET
    if request.method == "GET" or not body:
        return query
    read = partial(form_in, request.headers.get("content-type", ""), body)
    return query | await service.threads.run(len(body), read)


def _answer(request: Request, service: Service, parameters: Parameters) -> Response:
    """Return the answer to a request. Raises RefusedError and ValueError."""
    model = service.models.find(parameters.get("model"))
    tags, tree = (parameters.get(name, NONE) != NONE for name in (TAGGER, PARSER))
    if tags and not model.predicts:
        raise wrong(f"the model {model.name} has no tagger; leave out the parameter {TAGGER}")
    form = parameters.get("output", CONLLU)
    write = writer_of(form, tags, tree)
    read = _reader(model, parameters)
    size = len(parameters["data"])
    if TOKENIZER in parameters:
        given = Input.of_text(lambda: service.limits.check(read()), size)
    else:
        given = Input(partial(read_in_advance, lambda: service.limits.check(read())), size)
    record = record_of(request.scope)
    found = service.parse(model, given, record) if tags or tree else service.read(given)

    async def chunks() -> AsyncGenerator[bytes, None]:
        begin = {"model": model.name, "acknowledgements": [], "result": _comments(model, form)}
        yield json.dumps(begin, ensure_ascii=False).removesuffix('"}').encode()
        async with aclosing(found) as parsed:
            async for several in parsed:
                yield await service.write(several, partial(_in_string, write, several))
        yield f'"{record.warnings_in_json}}}\n'.encode()

    return service.answer(chunks(), JSON)


def _reader(model: ServedModel, parameters: Parameters) -> Callable[[], Iterator[ReadSentence]]:
    """Return a function that reads the data. Raises RefusedError and ValueError."""
    data = parameters["data"]
    if TOKENIZER not in parameters:
        form = parameters.get("input", CONLLU)

        def read_sentences() -> Iterator[ReadSentence]:
            if form == CONLLU and "\t" not in data and _has_text(data):
                message = "the data has no columns of CoNLL-U; to read text, add the parameter"
                raise wrong(f"{message} {TOKENIZER}")
            return sentences_in(normalized(data), form)

        return read_sentences
    options = {option.partition("=")[0] for option in parameters[TOKENIZER].split(";")}
    is_divided = PRESEGMENTED in options
    form_of_text: TextFormat = "one-sentence-per-line" if is_divided else "raw"
    reader = model.reader(form_of_text)

    def read() -> Iterator[ReadSentence]:
        text = normalized(data)
        spaces = Spaces(text, RANGES in options, NORMALIZED in options)
        return map(spaces.told, text_sentences(reader, form_of_text, [text]))

    return read


def _has_text(data: str) -> bool:
    """Whether a line is neither blank nor a comment; in pieces, so that other threads run meanwhile."""
    start = 0
    while start < len(data):
        end = data.find("\n", start + PIECE)
        if LINE_OF_TEXT.search(data[start : end if end > 0 else len(data)]):
            return True
        start = end if end > 0 else len(data)
    return False


def _comments(model: ServedModel, form: str) -> str:
    """Return the comments before the first sentence."""
    if form.partition("=")[0] != CONLLU:
        return ""
    return f"# {PROGRAM} = stack-parser {__version__}\n# {MODEL} = {model.name}\n"


def _in_string(write: Write, several: Sequence[ParsedSentence]) -> bytes:
    """Return sentences escaped for the inside of a JSON string."""
    return json.dumps("".join(map(write, several)), ensure_ascii=False)[1:-1].encode()


def urlencoded(content: str) -> dict[str, str]:
    """Return the parameters; if a name has several values, the last one counts. Raises RefusedError."""
    try:
        return dict(parse_qsl(content, keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS))
    except ValueError:
        raise wrong("the parameters are not urlencoded UTF-8, or too many") from None


def form_in(content_type: str, body: bytes) -> dict[str, str]:
    """Return the parameters in a body. Raises RefusedError."""
    kind, options = parse_options_header(content_type)
    if kind == URLENCODED:
        try:
            return urlencoded(body.decode("ascii"))
        except UnicodeDecodeError:
            raise wrong("the parameters are not urlencoded") from None
    if kind == MULTIPART and b"boundary" in options:
        return _Multipart(options[b"boundary"]).fields(body)
    raise wrong(f"the body should be {URLENCODED.decode()} or {MULTIPART.decode()}, not {content_type!r}")


class _Multipart:
    """Reads a body of several parts (RFC 7578). Each part is a field; the value of a file is its content."""

    def __init__(self, boundary: bytes):
        self._boundary = boundary
        self._fields: dict[str, str] = {}
        self._header, self._value = bytearray(), bytearray()
        self._name: bytes | None = None
        self._content = bytearray()
        self._is_complete = False

    def fields(self, body: bytes) -> dict[str, str]:
        """Return the fields by name. Raises RefusedError."""
        parser = MultipartParser(
            self._boundary,
            {
                "on_part_begin": self._begin,
                "on_header_begin": self._begin_header,
                "on_header_field": lambda data, start, end: self._header.extend(data[start:end]),
                "on_header_value": lambda data, start, end: self._value.extend(data[start:end]),
                "on_header_end": self._end_header,
                "on_part_data": lambda data, start, end: self._content.extend(data[start:end]),
                "on_part_end": self._end,
                "on_end": self._end_body,
            },
        )
        try:
            parser.write(body)
            parser.finalize()
        except (MultipartParseError, UnicodeDecodeError):
            raise wrong("the parts of the body are broken, or not UTF-8") from None
        if not self._is_complete:
            raise wrong("the parts of the body are broken: the last one has no end")
        return self._fields

    def _begin(self) -> None:
        self._name = None
        self._content.clear()

    def _begin_header(self) -> None:
        self._header.clear()
        self._value.clear()

    def _end_header(self) -> None:
        if self._header.lower() == b"content-disposition":
            self._name = parse_options_header(bytes(self._value))[1].get(b"name")

    def _end(self) -> None:
        if self._name:
            self._fields[self._name.decode()] = self._content.decode()
        if len(self._fields) > MAX_FIELDS:
            raise wrong("there are too many parameters")

    def _end_body(self) -> None:
        self._is_complete = True
