"""Our own protocol: `POST /v1/parse`, typed, so that OpenAPI describes it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from parser.service.answer import HELD_BYTES
from parser.service.parsing import WORD_BYTES, Input
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
from parser.service.typed_formats import CONLLU, NDJSON, answer_format
from parser.service.typed_messages import ParseAnswer, ParseRequest, Problem

PARSE = "/v1/parse"
TEXT = {"schema": {"type": "string"}}
PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: {"model": Problem, "description": "The request is wrong"},
    401: {"description": "A token is needed"},
    406: {"model": Problem, "description": "Accept names none of the forms"},
    408: {"model": Problem, "description": "The body did not come in time"},
    413: {"model": Problem, "description": "There are too many bytes or words"},
    422: {"model": Problem, "description": "The body is not as described"},
    429: {"model": Problem, "description": "Too many requests wait; see Retry-After"},
    503: {"model": Problem, "description": "It took too long, or the service is being stopped"},
}


def typed_routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["parsing"])
    forms = {"description": "The trees", "content": {NDJSON: TEXT, CONLLU: TEXT}}

    @router.post(PARSE, response_model=ParseAnswer, responses={200: forms, **PROBLEMS})
    async def parse(request: Request, wanted: ParseRequest) -> Response:
        """Trees in the order of the sentences: as one object, as a line for each, or in CoNLL-U.

        The header Accept chooses. Lines come as soon as their sentences are parsed. If something goes wrong
        after the first of them, the answer is broken off.
        """
        model = service.models.find(wanted.model)
        form = answer_format(", ".join(request.headers.getlist("accept")), model.name)
        found = service.parse(
            model, _input(service, model, wanted), record_of(request.scope), wanted.probabilities
        )

        async def chunks() -> AsyncGenerator[bytes, None]:
            is_first = True
            yield form.begin.encode()
            async with aclosing(found) as parsed:
                async for several in parsed:
                    yield await service.write(several, partial(form.write, several, is_first))
                    is_first = False
            yield form.end.encode()

        held = 1 if form.media_type == NDJSON else HELD_BYTES
        return service.answer(chunks(), form.media_type, held)

    return router


def _input(service: Service, model: ServedModel, wanted: ParseRequest) -> Input:
    """Raises RefusedError if the model can not read it."""
    if wanted.texts is not None:
        reader, texts = model.reader(wanted.text_format), wanted.texts
        by_lines = wanted.text_format != "raw"
        size = sum(len(text) + WORD_BYTES for text in texts)
        return Input(lambda: service.limits.check(text_sentences(reader, texts, by_lines)), size)
    read: Callable[[], Iterator[ReadSentence]]
    if wanted.conllu is not None:
        read, size = partial(conllu_sentences, wanted.conllu), len(wanted.conllu)
    else:
        given = wanted.sentences or []
        read = partial(word_sentences, given)
        size = sum(len(word) + WORD_BYTES for one in given for word in one.words)
    return Input(partial(read_in_advance, lambda: service.limits.check(read())), size)
