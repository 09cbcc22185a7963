"""The parts of an input, a treebank or a text: cutting them, sharing them, and going on in the middle."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

from parser.system.console import quoted
from parser.text import reading
from parser.text.reading import BY_LINES, TextFormat, TextPart, stream_text
from parser.treebank import conllu
from parser.treebank.conllu import TreebankPart, stream_parts

LEAST_SHARES = 4
"""Into so many a part is divided even for one process, which has the sentences of a share in memory."""
Part = TreebankPart | TextPart


def parts_of(path: str, form: TextFormat | None) -> Iterator[Part]:
    """The parts of a file. form: that of a text. Raises OSError and ValueError."""
    if form:
        return stream_text(path, by_lines=_by_lines(form))
    return stream_parts(path)


def shared(parts: Iterable[Part], processes: int, form: TextFormat | None) -> Iterator[Part]:
    """Divide each part for several processes, where this changes no sentence."""
    for part in parts:
        number = max(processes, LEAST_SHARES)
        if isinstance(part, TextPart):
            yield from reading.shares(part, number, _by_lines(form))
        else:
            yield from conllu.shares(part, number)


def name_of(part: Part, path: str) -> str:
    """The place of a part, for messages."""
    if isinstance(part, TextPart):
        end = part.offset + len(part.content)
        first = quoted(part.content.lstrip().partition("\n")[0])
        return f"{path}: characters {part.offset + 1:,} to {end:,}, from {first} on"
    end = part.line + max(0, part.content.count(b"\n") - 1)
    return f"{path}: lines {part.line:,} to {end:,}"


class Position(NamedTuple):
    """How far an input has been read."""

    length: int
    """Bytes of a treebank, or characters of a text."""
    digest: str
    """The hash of what comes before."""


class InputParts:
    """The parts of a file for several processes."""

    def __init__(self, path: str, form: TextFormat | None, processes: int):
        self._form, self._processes = form, processes
        self._parts = parts_of(path, form)
        self._hash, self.length = hashlib.sha256(), 0  # of the parts that have come
        self._positions: deque[Position] = deque()

    @classmethod
    def after(
        cls, path: str, form: TextFormat | None, processes: int, done: Position, sentences: int
    ) -> InputParts | None:
        """The parts after a position; None if what comes before it has changed.

        sentences: their number before the position.
        """
        rest = cls(path, form, processes)
        for part in rest._parts:
            before, following = _divided(part, done.length - rest.length, sentences)
            position = rest._read(before)
            if position.length == done.length:
                rest._parts = chain([following] if following.content else [], rest._parts)
                return rest if position == done else None
        return None

    def __iter__(self) -> Iterator[Part]:
        for part in shared(self._parts, self._processes, self._form):
            self._positions.append(self._read(part))
            yield part

    def end(self) -> Position:
        """The end of the first part that has come and of which this has not been asked."""
        return self._positions.popleft()

    def _read(self, part: Part) -> Position:
        content = part.content
        self._hash.update(content.encode() if isinstance(content, str) else content)
        self.length += len(content)
        return Position(self.length, self._hash.hexdigest())


def _divided(part: Part, length: int, sentences: int) -> tuple[Part, Part]:
    """Divide a part after so many bytes or characters, and so many sentences of the whole input."""
    if isinstance(part, TextPart):
        before, after = part.content[:length], part.content[length:]
        return TextPart(part.offset, before), TextPart(part.offset + len(before), after)
    done = part.content[:length]
    following = TreebankPart(part.line + done.count(b"\n"), sentences + 1, part.content[length:])
    return part._replace(content=done), following


def _by_lines(form: TextFormat | None) -> bool:
    """Whether parts may end after each line."""
    return form in BY_LINES
