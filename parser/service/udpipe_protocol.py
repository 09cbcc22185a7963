"""The REST protocol of UDPipe, https://lindat.mff.cuni.cz/services/udpipe/api-reference.php."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from urllib.parse import parse_qsl

from python_multipart import MultipartParser
from python_multipart.exceptions import MultipartParseError
from python_multipart.multipart import parse_options_header
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from parser.service.limits import wrong
from parser.service.reading import PIECE, InputSentence, normalized, read_in_advance, text_sentences
from parser.service.request_record import record_of
from parser.service.served_models import ServedModel
from parser.service.service import Input, ParsedSentence, Service
from parser.service.udpipe_formats import CONLLU, MODEL, PROGRAM, Spaces, sentences_in, writer_of
from parser.system.version import __version__
from parser.text.reading import TextFormat

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
        components = {}
        for model in service.models:
            has = {TOKENIZER: model.has_tokenizer, TAGGER: model.predicts, PARSER: True}
            components[model.name] = [name for name, is_there in has.items() if is_there]
        return JSONResponse({"models": components, "default_model": service.models.default.name})

    async def process(request: Request) -> Response:
        try:
            parameters = await _parameters(request, service)
            if "data" not in parameters:
                raise wrong("the parameter data is needed")
            return _answer(request, service, parameters)
        except ValueError as error:
            raise wrong(str(error)) from None

    methods = ["GET", "POST"]
    return [Route(PROCESS, process, methods=methods), Route(MODELS, models, methods=methods)]


async def _parameters(request: Request, service: Service) -> Parameters:
    """Return the parameters of the query and the body; the body takes precedence. Raises RefusedError."""
    query = urlencoded(request.scope["query_string"].decode())
    body = await request.body()  # refuses one that is too large, also that of a GET
    if request.method == "GET" or not body:
        return query
    content_type = request.headers.get("content-type", "")
    return query | await service.threads.run(len(body), lambda: form_in(content_type, body))


def _answer(request: Request, service: Service, parameters: Parameters) -> Response:
    """Return the answer to a request. Raises RefusedError and ValueError."""
    model = service.models.find(parameters.get("model"))
    tags, tree = (parameters.get(name, NONE) != NONE for name in (TAGGER, PARSER))
    if tags and not model.predicts:
        raise wrong(f"the model {model.name} has no tagger; leave out the parameter {TAGGER}")
    form = parameters.get("output", CONLLU)
    write = writer_of(form, tags, tree)
    given = _input(service, model, parameters)
    record = record_of(request.scope)
    comments = f"# {PROGRAM} = stack-parser {__version__}\n# {MODEL} = {model.name}\n"
    result = comments if form.partition("=")[0] == CONLLU else ""

    def in_string(several: Sequence[ParsedSentence]) -> bytes:
        """Return sentences escaped for the inside of a JSON string."""
        return json.dumps("".join(map(write, several)), ensure_ascii=False)[1:-1].encode()

    if tags or tree:
        sentences = service.parse(model, given, record, in_string)
    else:
        sentences = service.read(given, in_string)

    async def chunks() -> AsyncGenerator[bytes, None]:
        begin = {"model": model.name, "acknowledgements": [], "result": result}
        yield json.dumps(begin, ensure_ascii=False).removesuffix('"}').encode()
        async with aclosing(sentences) as written:
            async for content in written:
                yield content
        yield f'"{record.warnings_in_json}}}\n'.encode()

    return service.answer(chunks(), JSON)


def _input(service: Service, model: ServedModel, parameters: Parameters) -> Input:
    """Return what is to be parsed. Raises RefusedError if the model cannot read it."""
    data, check = parameters["data"], service.limits.check
    if TOKENIZER in parameters:
        options = {option.partition("=")[0] for option in parameters[TOKENIZER].split(";")}
        text_format: TextFormat = "one-sentence-per-line" if PRESEGMENTED in options else "raw"
        reader = model.reader(text_format)

        def sentences_of_text() -> Iterator[InputSentence]:
            text = normalized(data)
            spaces = Spaces(text, RANGES in options, NORMALIZED in options)
            return check(text_sentences(reader, text_format, [text], spaces.told))

        return Input.of_text(sentences_of_text, len(data))
    form = parameters.get("input", CONLLU)

    def sentences() -> Iterator[InputSentence]:
        if form == CONLLU and "\t" not in data and _has_text(data):
            message = "the data has no columns of CoNLL-U; to read text, add the parameter"
            raise wrong(f"{message} {TOKENIZER}")
        return check(sentences_in(normalized(data), form))

    return Input(partial(read_in_advance, sentences), len(data))


def _has_text(data: str) -> bool:
    """Whether a line is neither blank nor a comment; in pieces, so that other threads run meanwhile."""
    start = 0
    while start < len(data):
        end = data.find("\n", start + PIECE)
        if LINE_OF_TEXT.search(data[start : end if end > 0 else len(data)]):
            return True
        start = end if end > 0 else len(data)
    return False


def urlencoded(content: str) -> dict[str, str]:
    """Return the parameters; if a name has several values, the last one counts. Raises RefusedError."""
    try:
        return dict(parse_qsl(content, keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS))
    except ValueError:
        raise wrong("the parameters are not urlencoded UTF-8, or too many") from None


def form_in(content_type: str, body: bytes) -> dict[str, str]:
    """Return the parameters in a body, encoded like the forms of a browser. Raises RefusedError."""
    kind, options = parse_options_header(content_type)
    if kind == URLENCODED:
        try:
            return urlencoded(body.decode("ascii"))
        except UnicodeDecodeError:
            raise wrong("the parameters are not urlencoded") from None
    if kind == MULTIPART and b"boundary" in options:
        return _multipart(options[b"boundary"], body)
    raise wrong(f"the body should be {URLENCODED.decode()} or {MULTIPART.decode()}, not {content_type!r}")


def _multipart(boundary: bytes, body: bytes) -> dict[str, str]:
    """Return the fields of a body of several parts (RFC 7578); the value of a file is its content. Raises
    RefusedError.

    Starlette's own reader runs in the event loop, takes text that is not UTF-8 for Latin-1, and a body that
    lacks its end for a complete one.
    """
    fields: dict[str, str] = {}
    header, value, content = bytearray(), bytearray(), bytearray()
    name: bytes | None = None
    is_complete = False

    def begin_part() -> None:
        nonlocal name
        name = None
        content.clear()

    def begin_header() -> None:
        header.clear()
        value.clear()

    def end_header() -> None:
        nonlocal name
        if header.lower() == b"content-disposition":
            name = parse_options_header(bytes(value))[1].get(b"name")

    def end_part() -> None:
        if name:
            fields[name.decode()] = content.decode()
        if len(fields) > MAX_FIELDS:
            raise wrong("there are too many parameters")

    def end_body() -> None:
        nonlocal is_complete
        is_complete = True

    parser = MultipartParser(
        boundary,
        {
            "on_part_begin": begin_part,
            "on_header_begin": begin_header,
            "on_header_field": lambda data, start, end: header.extend(data[start:end]),
            "on_header_value": lambda data, start, end: value.extend(data[start:end]),
            "on_header_end": end_header,
            "on_part_data": lambda data, start, end: content.extend(data[start:end]),
            "on_part_end": end_part,
            "on_end": end_body,
        },
    )
    try:
        parser.write(body)
        parser.finalize()
    except (MultipartParseError, UnicodeDecodeError):
        raise wrong("the parts of the body are broken, or not UTF-8") from None
    if not is_complete:
        raise wrong("the parts of the body are broken: the last one has no end")
    return fields
