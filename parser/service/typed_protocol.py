"""Our own protocol: `POST /v1/parse`, typed, so that OpenAPI describes it."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from typing import Any, TypeVar

from fastapi import APIRouter, Request
from starlette.responses import Response

from parser.api.sentences import tree_of, tree_of_text
from parser.api.tree import Tree
from parser.parsing.options import ParseOptions
from parser.parsing.parsed_tree import ParsedTree
from parser.parsing.part_parser import output_of
from parser.service.answer import ErrorLine
from parser.service.error_forms import error_in_conllu, error_in_ndjson
from parser.service.limits import RefusedError
from parser.service.reading import (
    InputSentence,
    conllu_sentences,
    read_in_advance,
    text_sentences,
    word_sentences,
)
from parser.service.request_record import RequestRecord, record_of
from parser.service.served_models import ServedModel
from parser.service.service import Input, ParsedSentence, Service
from parser.service.typed_body import route_that_reads_by
from parser.service.typed_messages import (
    AnsweredAlternative,
    AnsweredSentence,
    AnsweredToken,
    ParseAnswer,
    ParseRequest,
    Problem,
    TagProbabilities,
)
from parser.treebank.sentence import Sentence

Value = TypeVar("Value")
PARSE = "/v1/parse"
JSON, NDJSON, CONLLU = "application/json", "application/x-ndjson", "text/x-conllu"
SENTENCE_ID = "# sent_id = "
RANGES = {
    JSON: ((JSON,), ("application/*",), ("*/*",)),
    NDJSON: ((NDJSON, "application/ndjson"), ("application/*",), ("*/*",)),
    CONLLU: ((CONLLU,), ("text/plain",), ("text/*",), ("*/*",)),
}
"""The formats, in order of preference, and the media ranges that include each, the most specific first."""
TEXT = {"schema": {"type": "string"}}
LINES = {
    "schema": {"type": "string", "description": "A line for each AnsweredSentence; a Problem, if it fails"}
}
HEADERS = {
    "X-Request-ID": {"description": "The name of the request, the client's or a new one", **TEXT},
    "X-Model-Digest": {"description": "The beginning of a hash of the model's files", **TEXT},
    "X-Parser-Version": {"description": "The version of the program", **TEXT},
}
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
    forms = {"description": "The trees", "headers": HEADERS, "content": {NDJSON: LINES, CONLLU: TEXT}}

    @router.post(PARSE, response_model=ParseAnswer, responses={200: forms, **PROBLEMS})
    async def parse(request: Request, wanted: ParseRequest) -> Response:
        """Parse sentences, and return their trees in the same order.

        The header Accept selects the format: one object, a line for each sentence, or CoNLL-U. In the last
        two, each sentence is sent as soon as it is parsed. If an error occurs after the first one, the last
        line tells it (a Problem with a status, or the comment `# error = STATUS: DETAIL`), and the connection
        is closed before the answer is complete.
        """
        model, record = service.models.find(wanted.model), record_of(request.scope)
        accept = ", ".join(request.headers.getlist("accept"))
        form = answer_format(accept, model.name, len(wanted.texts or ()))
        model.refuse_unable(options := wanted.options)
        given = _input(service, model, wanted, options, len(await request.body()))
        is_first = True

        def write(several: Sequence[ParsedSentence]) -> bytes:
            nonlocal is_first
            content = form.write(several, is_first)
            is_first = False
            return content

        async def chunks() -> AsyncGenerator[bytes, None]:
            yield form.begin.encode()
            async with aclosing(service.parse(model, given, record, write, options)) as written:
                async for content in written:
                    yield content
            yield form.end(record)

        return service.answer(chunks(), form.media_type, form.error_line)

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
    read: Callable[[], Iterator[InputSentence]]
    if wanted.conllu is not None:
        check = model.constraints.check(options)
        read = partial(conllu_sentences, wanted.conllu, "conllu", check and service.limits.before(check))
    else:
        faults = service.limits.before(partial(model.constraints.faults, wanted=options))
        read = partial(word_sentences, wanted.sentences or [], faults)
    return Input(partial(read_in_advance, lambda: service.limits.check(read())), size)


@dataclass(frozen=True)
class AnswerFormat:
    media_type: str
    begin: str
    """Text before the first sentence."""
    between: str
    """Text between sentences."""
    after: str
    """Text after each sentence."""
    numbers_texts: bool = False
    """Whether CoNLL-U says from which text of the request a sentence is."""

    def end(self, record: RequestRecord) -> bytes:
        return f"]{record.warnings_in_json}}}\n".encode() if self.media_type == JSON else b""

    @property
    def error_line(self) -> ErrorLine | None:
        """What writes the last line of an answer that fails after its first sentence; JSON has no lines."""
        return {NDJSON: error_in_ndjson, CONLLU: error_in_conllu}.get(self.media_type)

    def write(self, parsed: Sequence[ParsedSentence], is_first: bool) -> bytes:
        """Return sentences in this format. is_first: whether they are the first ones of the answer."""
        write = partial(_conllu, numbers_texts=self.numbers_texts) if self.media_type == CONLLU else _json
        text = self.between.join(write(one) + self.after for one in parsed)
        return (text if is_first else self.between + text).encode()


def answer_format(accept: str, model: str, texts: int = 0) -> AnswerFormat:
    """Return the format of an answer. accept: the header. model: the name of the model. texts: the number of
    texts in the request. Raises RefusedError if the header accepts none of the formats.
    """
    name = _preferred(accept)
    if name == JSON:
        return AnswerFormat(name, f'{{"model": {json.dumps(model)}, "sentences": [', ", ", "")
    return AnswerFormat(name, "", "", "\n" if name == NDJSON else "", numbers_texts=texts > 1)


def _preferred(accept: str) -> str:
    """The format with the highest quality (RFC 9110, section 12.5.1). Of equal ones, the first in the header.

    Raises RefusedError if the header accepts none.
    """
    given: dict[str, tuple[float, int]] = {}
    for position, part in enumerate((accept or "*/*").lower().split(",")):
        name, *options = (piece.strip() for piece in part.split(";"))
        [quality] = [option[2:] for option in options if option.startswith("q=")][:1] or ["1"]
        with suppress(ValueError):
            given.setdefault(name, (-float(quality), position))
    accepted = {}
    for name, ranges in RANGES.items():
        named = next(filter(None, (given.keys() & alike for alike in ranges)), set())
        if named and (best := min(given[one] for one in named))[0] < 0:
            accepted[name] = best
    if not accepted:
        raise RefusedError(HTTPStatus.NOT_ACCEPTABLE, f"Accept: available are {JSON}, {NDJSON} and {CONLLU}")
    return min(accepted, key=lambda name: accepted[name])


def _tree(parsed: ParsedSentence) -> Tree:
    given, tree = parsed
    if given.tokenized:
        return tree_of_text(given.sentence, tree, given.tokenized)
    return replace(tree_of(given.sentence, tree), **given.comments)


def _conllu(parsed: ParsedSentence, numbers_texts: bool) -> str:
    """numbers_texts: the first sentence of a text has `# newdoc id` with the number of the text, from 1."""
    sentence = parsed.input.sentence if parsed.input.sentence.lines else _with_lines(parsed)
    if numbers_texts and parsed.input.text is not None:
        text = parsed.input.text + 1
        identifier = f"{text}-{sentence.identifier}"
        begin = [f"# newdoc id = {text}\n"] if sentence.identifier == "1" else []
        named = f"{SENTENCE_ID}{identifier}\n"
        lines = [named if line.startswith(SENTENCE_ID) else line for line in sentence.lines]
        word_lines = tuple(line + len(begin) for line in sentence.word_lines)
        sentence = replace(sentence, identifier=identifier, lines=(*begin, *lines), word_lines=word_lines)
    return output_of(sentence, parsed.tree, "missing", deps="predict").content.decode()


def _with_lines(parsed: ParsedSentence) -> Sentence:
    """Return the sentence with lines of CoNLL-U. It was given as words, perhaps without its text."""
    without_misc = ParsedTree(parsed.tree.heads, parsed.tree.labels, tags=parsed.tree.tags)
    tree = _tree(parsed._replace(tree=without_misc))
    conllu = replace(tree, text=tree.text or " ".join(tree.words)).to_conllu()
    lines = tuple(f"{line}\n" for line in conllu.split("\n")[:-1])
    words = len(parsed.input.sentence)
    first = len(lines) - 1 - words
    return replace(parsed.input.sentence, lines=lines, word_lines=tuple(range(first, first + words)))


def _json(parsed: ParsedSentence) -> str:
    tree = _tree(parsed)
    answered = AnsweredSentence.model_construct(
        input=parsed.input.text,
        sent_id=tree.sent_id,
        text=tree.text,
        tokens=[
            AnsweredToken.model_construct(
                form=token.form, start=token.start, end=token.end, words=len(token.words)
            )
            for token in tree.tokens or ()
        ]
        or None,
        words=list(tree.words),
        upos=_listed(tree.upos),
        xpos=_listed(tree.xpos),
        feats=_listed(tree.feats),
        lemmas=_listed(tree.lemmas),
        heads=list(tree.heads),
        labels=list(tree.labels),
        probabilities=_listed(tree.probabilities),
        tag_probabilities=_of_tags(tree.tag_probabilities),
        alternatives=[
            [AnsweredAlternative.model_construct(**arc._asdict()) for arc in of_word]
            for of_word in parsed.tree.alternatives
        ]
        or None,
        violations=list(tree.violations) or None,
    )
    return answered.model_dump_json(exclude_none=True)


def _of_tags(columns: Mapping[str, Sequence[float]] | None) -> TagProbabilities | None:
    if not columns:
        return None
    return TagProbabilities(**{name: list(column) for name, column in columns.items()})


def _listed(column: Sequence[Value] | None) -> list[Value] | None:
    return None if column is None else list(column)
