"""The formats in which `POST /v1/parse` answers. The header Accept selects one of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus

from parser.api.parser import tree_of, tree_of_text
from parser.api.tree import Tree
from parser.parsing.parsed_tree import ParsedTree
from parser.parsing.part_parser import output_of
from parser.service.limits import RefusedError
from parser.service.parsing import ParsedSentence
from parser.service.request_record import RequestRecord
from parser.service.typed_messages import AnsweredAlternative, AnsweredSentence, AnsweredToken
from parser.treebank.sentence import Sentence

JSON, NDJSON, CONLLU = "application/json", "application/x-ndjson", "text/x-conllu"
SENTENCE_ID = "# sent_id = "
RANGES = {
    JSON: ((JSON,), ("application/*",), ("*/*",)),
    NDJSON: ((NDJSON, "application/ndjson"), ("application/*",), ("*/*",)),
    CONLLU: ((CONLLU,), ("text/plain",), ("text/*",), ("*/*",)),
}
"""The formats, in order of preference, and the media ranges that include each, the most specific first."""


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
        """Return the text after the last sentence."""
        return f"]{record.warnings_in_json}}}\n".encode() if self.media_type == JSON else b""

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
    for place, part in enumerate((accept or "*/*").lower().split(",")):
        name, *options = (piece.strip() for piece in part.split(";"))
        [quality] = [option[2:] for option in options if option.startswith("q=")][:1] or ["1"]
        with suppress(ValueError):
            given.setdefault(name, (-float(quality), place))
    found = {}
    for name, ranges in RANGES.items():
        named = next(filter(None, (given.keys() & alike for alike in ranges)), set())
        if named and (best := min(given[one] for one in named))[0] < 0:
            found[name] = best
    if not found:
        raise RefusedError(HTTPStatus.NOT_ACCEPTABLE, f"Accept: available are {JSON}, {NDJSON} and {CONLLU}")
    return min(found, key=lambda name: found[name])


def _tree(parsed: ParsedSentence) -> Tree:
    read, tree = parsed
    if read.found:
        return tree_of_text(read.sentence, tree, read.found)
    return replace(tree_of(read.sentence, tree), **read.comments)


def _conllu(parsed: ParsedSentence, numbers_texts: bool) -> str:
    sentence = parsed.read.sentence if parsed.read.sentence.lines else _with_lines(parsed)
    if numbers_texts and parsed.read.text is not None:
        sentence = _of_document(sentence, parsed.read.text + 1)
    return output_of(sentence, parsed.tree, "missing", deps="drop").content.decode()


def _of_document(sentence: Sentence, text: int) -> Sentence:
    """Return a sentence of a text, the first with `# newdoc id`. text: the number of the text, from 1."""
    identifier = f"{text}-{sentence.identifier}"
    begin = [f"# newdoc id = {text}\n"] if sentence.identifier == "1" else []
    named = f"{SENTENCE_ID}{identifier}\n"
    lines = [named if line.startswith(SENTENCE_ID) else line for line in sentence.lines]
    word_lines = tuple(line + len(begin) for line in sentence.word_lines)
    return replace(sentence, identifier=identifier, lines=(*begin, *lines), word_lines=word_lines)


def _with_lines(parsed: ParsedSentence) -> Sentence:
    """Return the sentence with lines of CoNLL-U. It was given as words, perhaps without its text."""
    plain = ParsedTree(parsed.tree.heads, parsed.tree.labels, tags=parsed.tree.tags)
    tree = _tree(parsed._replace(tree=plain))
    conllu = replace(tree, text=tree.text or " ".join(tree.words)).to_conllu()
    lines = tuple(f"{line}\n" for line in conllu.split("\n")[:-1])
    words = len(parsed.read.sentence)
    first = len(lines) - 1 - words
    return replace(parsed.read.sentence, lines=lines, word_lines=tuple(range(first, first + words)))


def _json(parsed: ParsedSentence) -> str:
    tree = _tree(parsed)
    answered = AnsweredSentence.model_construct(
        input=parsed.read.text,
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
        probabilities=None if tree.probabilities is None else list(tree.probabilities),
        alternatives=[
            [AnsweredAlternative.model_construct(**own._asdict()) for own in of_word]
            for of_word in parsed.tree.alternatives
        ]
        or None,
        violations=list(tree.violations) or None,
    )
    return answered.model_dump_json(exclude_none=True)


def _listed(column: Sequence[str] | None) -> list[str] | None:
    return None if column is None else list(column)
