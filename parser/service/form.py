"""The parameters of a request in its query and its body, encoded like the forms of a browser."""

from __future__ import annotations

from urllib.parse import parse_qsl

from python_multipart import MultipartParser
from python_multipart.exceptions import MultipartParseError
from python_multipart.multipart import parse_options_header

from parser.service.limits import wrong

URLENCODED, MULTIPART = b"application/x-www-form-urlencoded", b"multipart/form-data"
MAX_FIELDS = 100


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
