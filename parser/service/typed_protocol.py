"""Our own protocol: `POST /v1/parse`, typed, so that OpenAPI describes it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from parser.parsing.options import ParseOptions
from parser.service.answer import HELD_BYTES
from parser.service.parsing import Input
from parser.service.reading import (
    ReadSentence,
    conllu_sentences,
    read_in_advance,
    text_sentences,
    word_sentences,
)
from parser.service.request_record import record_of
from parser.service.served_models import ServedModel
from parser.service.service import Service
from parser.service.typed_body import route_that_reads_by
from parser.service.typed_formats import CONLLU, NDJSON, answer_format
from parser.service.typed_messages import ParseAnswer, ParseRequest, Problem

PARSE = "/v1/parse"
TEXT = {"schema": {"type": "string"}}
PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: {"model": Problem, "description": "The request is invalid"},
    401: {"description": "A token is required"},
    406: {"model": Problem, "description": "Accept names none of the formats"},
    408: {"model": Problem, "description": "The body did not arrive in time"},
    413: {"model": Problem, "description": "The request contains too many bytes or words"},
    414: {"description": "The address is too long"},
    415: {"model": Problem, "description": "The body is not JSON by its Content-Type, or compressed"},
    422: {"model": Problem, "description": "The body does not match its description"},
    429: {"model": Problem, "description": "Too many requests are parsed or waiting; see Retry-After"},
    431: {"description": "The headers are too long"},
    500: {"model": Problem, "description": "The service failed; its log says where"},
    503: {"model": Problem, "description": "The request took too long, or the service is being stopped"},
}


def typed_routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["parsing"], route_class=route_that_reads_by(service.threads))
    forms = {"description": "The trees", "content": {NDJSON: TEXT, CONLLU: TEXT}}

    @router.post(PARSE, response_model=ParseAnswer, responses={200: forms, **PROBLEMS})
    async def parse(request: Request, wanted: ParseRequest) -> Response:
        """Parse sentences, and return their trees in the same order.

        The header Accept selects the format: one object, a line for each sentence, or CoNLL-U. Each line is
        sent as soon as its sentence is parsed. If an error occurs after the first line, the answer is broken
        off.
        """
        model, record = service.models.find(wanted.model), record_of(request.scope)
        accept = ", ".join(request.headers.getlist("accept"))
        form = answer_format(accept, model.name, len(wanted.texts or ()))
        model.refuse_unable(options := wanted.options)
        given = _input(service, model, wanted, options, len(await request.body()))
        found = service.parse(model, given, record, options)

        async def chunks() -> AsyncGenerator[bytes, None]:
            is_first = True
            yield form.begin.encode()
            async with aclosing(found) as parsed:
                async for several in parsed:
                    yield await service.write(several, partial(form.write, several, is_first))
                    is_first = False
            yield form.end(record)

        held = 1 if form.media_type == NDJSON else HELD_BYTES
        return service.answer(chunks(), form.media_type, held)

    return router


def _input(
    service: Service, model: ServedModel, wanted: ParseRequest, options: ParseOptions, size: int
) -> Input:
    """Return the input of a request. size: the size of its body. Raises RefusedError if the model cannot read
    it.
    """
    if wanted.texts is not None:
        form, texts = wanted.text_format, wanted.texts
        reader = model.reader(form)
        return Input.of_text(lambda: service.limits.check(text_sentences(reader, form, texts)), size)
    read: Callable[[], Iterator[ReadSentence]]
    if wanted.conllu is not None:
        check = model.constraints.check(options)
        read = partial(conllu_sentences, wanted.conllu, "conllu", check and service.limits.before(check))
    else:
        faults = service.limits.before(partial(model.constraints.faults, wanted=options))
        read = partial(word_sentences, wanted.sentences or [], faults)
    return Input(partial(read_in_advance, lambda: service.limits.check(read())), size)
