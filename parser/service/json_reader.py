"""Reads JSON value by value, so that other threads run meanwhile and a long list need not be in memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from json import JSONDecodeError, JSONDecoder
from json.scanner import py_make_scanner  # type: ignore[attr-defined]
from typing import Any, NoReturn

MOST_DIGITS = 1_000
"""Reading digits takes time quadratic in their number."""


class _Decoder(JSONDecoder):
    """Python's decoder without its part in C, which reads megabytes in one call, while all threads wait."""

    def __init__(self) -> None:
        super().__init__(parse_constant=_refuse_constant, parse_int=_integer)
        self.scan_once = py_make_scanner(self)


def _integer(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"a number has more than {MOST_DIGITS:,} digits")
    return int(digits)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_DECODER = _Decoder()
BLANKS = re.compile(r"[ \t\n\r]*")


class JSONReader:
    """A place in a text that moves on as values are read. Every method raises ValueError for other text."""

    def __init__(self, text: str, place: int = 0):
        self.text, self.place = text, place
        self._skip_blanks()

    @property
    def is_at_list(self) -> bool:
        return self._is_at("[")

    def value(self) -> Any:
        """Return the value at this place."""
        try:
            value, self.place = _DECODER.raw_decode(self.text, self.place)
        except RecursionError:
            raise ValueError("lists and objects are nested too deeply") from None
        self._skip_blanks()
        return value

    def items(self) -> Iterator[None]:
        """Yield when the place is that of the next item of a list. The caller reads the item."""
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
        """Yield the next key of an object when the place is that of its value. The caller reads the value."""
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
        if self.place < len(self.text):
            raise JSONDecodeError("Extra data", self.text, self.place)

    def _key(self) -> str:
        if not self._is_at('"'):
            raise JSONDecodeError("Expecting a key in quotes", self.text, self.place)
        key: str = self.value()
        self._take(":", "`:`")
        return key

    def _is_at(self, sign: str) -> bool:
        return self.text.startswith(sign, self.place)

    def _take(self, sign: str, wanted: str = "") -> None:
        if not self._is_at(sign):
            raise JSONDecodeError(f"Expecting {wanted}", self.text, self.place)
        self.place += len(sign)
        self._skip_blanks()

    def _skip_blanks(self) -> None:
        found = BLANKS.match(self.text, self.place)
        assert found
        self.place = found.end()
