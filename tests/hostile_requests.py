"""Requests that once stopped the service or took its memory: each is answered, and nobody else waits."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

BOUNDARY = "of-parts"
SIZE = 4_000_000
"""Bytes of a large body: about as many as the service reads."""


@dataclass(frozen=True)
class Hostile:
    path: str
    content_type: str
    make: Callable[[], bytes]
    """Makes the body."""
    statuses: frozenset[int]
    """The statuses that the answer may have. Like any other, it may also be 429, 503 or 408."""

    @property
    def headers(self) -> Mapping[str, str]:
        return {"Content-Type": self.content_type, "Accept": "application/x-ndjson"}


def typed(make: Callable[[], object], *statuses: int) -> Hostile:
    """A body of `POST /v1/parse`. make: makes the value, or the text of the JSON."""

    def body() -> bytes:
        made = make()
        return (made if isinstance(made, str) else json.dumps(made, ensure_ascii=False)).encode()

    return Hostile("/v1/parse", "application/json", body, frozenset(statuses))


def form(text: Callable[[], str], *statuses: int, **parameters: str) -> Hostile:
    """A body of `/process` with several parts, in which no character is escaped."""

    def body() -> bytes:
        fields = {**parameters, "data": text()}
        head = '--{}\r\nContent-Disposition: form-data; name="{}"\r\n\r\n{}\r\n'
        parts = "".join(head.format(BOUNDARY, name, value) for name, value in fields.items())
        return f"{parts}--{BOUNDARY}--\r\n".encode()

    return Hostile("/process", f"multipart/form-data; boundary={BOUNDARY}", body, frozenset(statuses))


def conllu_of(count: int) -> str:
    return "1\ta\t_\t_\t_\t_\t_\t_\t_\t_\n\n" * count


HOSTILE = {
    # Combining marks: sorting them takes quadratic time.
    "marks": form(lambda: "a" + "\u0301" * 50_000 + "\u0323" * 50_000, 400, tokenizer="", parser=""),
    "marks with blanks": form(lambda: ("a" + "\u0301" * 9_000 + " ") * 20, 400, tokenizer="", parser=""),
    "marks in words": form(lambda: "1\ta" + "\u0323\u0301" * 60_000 + "\t_" * 8, 400, parser=""),
    # Long stretches without a blank, which a tokenizer reads in one call.
    "long words": typed(lambda: {"texts": [("a" * 19_999 + " ") * 26]}, 413),
    "words of a thousand": typed(lambda: {"texts": [("a" * 999 + " ") * 600]}, 200, 413),
    "no sentence ends": typed(lambda: {"texts": ["aaaaaaa " * 60_000]}, 200, 413),
    "a long line": typed(lambda: {"texts": ["word " * 3_900], "text_format": "one-sentence-per-line"}, 413),
    "windows with one short sentence": typed(lambda: {"texts": ['*1";)a=:#*1: a' * 7_000]}, 200),
    "line ends": form(lambda: "\n" * SIZE, 200, parser=""),
    "line ends, horizontal": form(lambda: "\n" * SIZE, 200, input="horizontal", parser=""),
    "line ends, vertical": form(lambda: "\n" * SIZE, 200, input="vertical", parser=""),
    "lines": typed(lambda: {"texts": ["\n" * (SIZE // 3)], "text_format": "one-sentence-per-line"}, 200),
    "horizontal": form(lambda: "a " * 400_000, 413, input="horizontal", parser=""),
    "vertical": form(lambda: "a\n" * 400_000, 413, input="vertical", parser=""),
    "blanks": form(lambda: " " * SIZE + "a", 200, tokenizer="ranges", parser=""),
    # JSON of many small values, or of unknown ones.
    "unknown keys": typed(lambda: "{" + ",".join(f'"k{n}":1' for n in range(150_000)) + "}", 422),
    "unknown keys of a sentence": typed(
        lambda: '{"sentences":[{' + ",".join(f'"k{n}":1' for n in range(150_000)) + "}]}", 422
    ),
    "a long key": typed(lambda: {"k" * SIZE: 1}, 422),
    "numbers": typed(lambda: {"model": [1] * (SIZE // 3)}, 422),
    "a long number": typed(lambda: '{"alternatives": ' + "9" * SIZE + "}", 422),
    "nested": typed(lambda: '{"model": ' + "[" * SIZE, 422),
    "small sentences": typed(lambda: {"sentences": [{"words": ["a"]}] * (SIZE // 20)}, 200),
    "given trees": typed(
        lambda: {"keep": "given", "sentences": [{"words": ["a"], "heads": [0]}] * (SIZE // 36)}, 200
    ),
    "one sentence": typed(lambda: {"sentences": [{"words": ["a"] * (SIZE // 6)}]}, 413),
    "small texts": typed(lambda: {"texts": ["It was. "] * (SIZE // 14)}, 200),
    "escapes": typed(lambda: '{"texts": ["' + "\\u0061" * (SIZE // 6) + '"]}', 400),
    "CoNLL-U": typed(lambda: {"conllu": conllu_of(SIZE // 36)}, 200),
    "CoNLL-U with an error at its end": typed(lambda: {"conllu": conllu_of(SIZE // 36) + "1\ta"}, 400),
}
"""By name."""
