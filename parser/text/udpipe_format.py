"""The format of a tokenizer of UDPipe 1, which is checked here before the library reads it.

A model may come from a stranger, and the library trusts what it reads. Segments of no characters make it read
out of bounds; numbers of bytes, characters and rules decide how much memory it allocates, and a failed
allocation ends the program; words of rules appear in its output, including any tabs and line ends. The
library itself checks only that it reads nothing beyond the end of the file or of a block.

    18 morphodita_parsito, version, (127 127 from version 2), 1: a tokenizer, 3: a GRU
    version, block: the GRU, its settings and characters
    version, block: the rules for multiword tokens
    0: no taggers, 0: no parser

Numbers are little-endian and unsigned, with one byte unless stated otherwise. A block consists of its sizes,
decompressed and compressed, and a check of both, in four bytes each; five bytes of properties; and an LZMA
stream without an end mark. `_check_network` and `_check_rules` show the contents of blocks.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from importlib.util import find_spec
from itertools import takewhile
from operator import eq

import numpy as np

START = b"\x12morphodita_parsito"
SENTINEL = b"\x7f\x7f"
GRU = 3
PROPERTIES = 0x5D
"""LZMA properties as written by the library: a context of 3 bits of the previous byte, 2 of the position."""
SMALLEST_DICTIONARY = 1 << 12
BLOCK_BYTES = range(1 << 24)
"""Decompressed sizes. Large blocks have a million bytes; in memory, blocks take up to about 40 times that."""
DIMENSIONS = 16, 24, 64
"""Dimensions for which the library is compiled."""
SEGMENTS = range(10, 1 << 16)
"""Numbers of characters that the GRU reads at once. The library does not train with shorter segments."""
CHARACTERS = range(0x110000)
MOST_EMBEDDINGS = 1 << 16
CATEGORIES = frozenset(1 << number for number in range(1, 31))
"""Unicode categories of characters, as numbered by the library."""
LONG_STRING = 255
"""Marks a string of at least this many bytes; its size follows the mark."""
STRING_BYTES = range(1 << 10)
WORDS = range(1, 65)
"""Numbers of words in a multiword token. Treebanks contain up to about ten."""
BREAKS = "\0\t\n\r"
"""Characters that no column of a treebank can contain."""
CONTINUATIONS = bytes(range(0x80, 0xC0))
"""Bytes that do not begin a character in UTF-8."""
ENTRY_BYTES = 128
"""Size of an entry in the library's table of suffixes, without the suffix."""
MOST_SUFFIX_BYTES = 1 << 29


def refuse_unsound(content: bytes) -> None:
    """Raises ValueError unless the content is a tokenizer's file that the library can read without harm."""
    if find_spec("_lzma") is None:
        raise ValueError(
            "this Python was built without lzma, which tokenizers of UDPipe need: take another one"
        )
    try:
        _check_file(_Bytes(content, "file"))
    except ValueError as error:
        advice = "get the model again, or train another tokenizer"
        raise ValueError(f"not a sound tokenizer of UDPipe 1: {error}; {advice}") from None


class _Bytes:
    """Bytes that are read in order. All methods raise ValueError."""

    def __init__(self, content: bytes, name: str):
        """name: for messages."""
        self._content, self._name, self._offset = content, name, 0

    def take(self, count: int) -> bytes:
        start, self._offset = self._offset, self._offset + count
        if self._offset > len(self._content):
            raise ValueError(f"{self._name}: ends too early")
        return self._content[start : self._offset]

    def expect(self, content: bytes, what_is: str) -> None:
        if self.take(len(content)) != content:
            raise ValueError(f"{self._name}: {what_is} is another one")

    def number(self, what_is: str, allowed: Container[int], size: int = 1) -> int:
        """Read a number, which must be allowed. size: in bytes."""
        number = int.from_bytes(self.take(size), "little")
        if number not in allowed:
            raise ValueError(f"{self._name}: {what_is} is {number}, which is out of bounds")
        return number

    def string(self) -> bytes:
        size = self.number("length of a string", range(LONG_STRING + 1))
        if size == LONG_STRING:
            size = self.number("length of a string", STRING_BYTES, size=4)
        return self.take(size)

    def floats(self, count: int) -> None:
        if not np.isfinite(np.frombuffer(self.take(4 * count), "<f4")).all():
            raise ValueError(f"{self._name}: a weight is not finite")

    def end(self) -> None:
        if rest := len(self._content) - self._offset:
            raise ValueError(f"{self._name}: has {rest:,} bytes after its end")


def _check_file(file: _Bytes) -> None:
    file.expect(START, "name")
    if file.number("version", range(1, 4)) > 1:
        file.expect(SENTINEL, "mark after the version")
    file.number("number of tokenizers", (1,))
    file.number("kind of the tokenizer", (GRU,))
    version = file.number("version of the network", (1, 2))
    _check_network(_decompressed(file, "network"), version)
    version = file.number("version of the rules", (1, 2))
    _check_rules(_decompressed(file, "rules"), version)
    file.number("number of taggers", (0,))
    file.number("number of parsers", (0,))
    file.end()


def _decompressed(file: _Bytes, name: str) -> _Bytes:
    """The next block. Any two LZMA decoders return the same bytes, or one of them refuses the stream."""
    import lzma  # missing in some builds of Python

    size = file.number(f"size of the {name}", BLOCK_BYTES, size=4)
    compressed = file.number(f"compressed size of the {name}", BLOCK_BYTES, size=4)
    check = (size * 19_991 + compressed * 199_999_991 + 1_234_567_890) % (1 << 32)
    file.number(f"check of the sizes of the {name}", (check,), size=4)
    file.number(f"compression of the {name}", (PROPERTIES,))
    file.take(4)  # the dictionary's size, which the library only compares
    dictionary = max(size, SMALLEST_DICTIONARY)
    filters = [{"id": lzma.FILTER_LZMA1, "dict_size": dictionary, "lc": 3, "lp": 0, "pb": 2}]
    decompressor = lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=filters)
    try:
        content = decompressor.decompress(file.take(compressed), max_length=size)
    except lzma.LZMAError as error:
        raise ValueError(f"{name}: cannot be decompressed: {error}") from None
    if len(content) != size:
        raise ValueError(f"{name}: has {len(content):,} bytes, not {size:,}")
    return _Bytes(content, name)


def _check_network(network: _Bytes, version: int) -> None:
    network.number("rules for addresses", range(3))
    network.number("length of segments", SEGMENTS, size=2)
    if version >= 2:
        network.number("whether tokens have spaces", (0, 1))
    network.number("version of the GRU", (1,))
    dimension = network.number("dimension", DIMENSIONS)
    characters = []
    for _ in range(network.number("number of characters", range(MOST_EMBEDDINGS), size=4)):
        characters.append(network.number("character", CHARACTERS, size=4))
        network.floats(dimension)
    if len(set(characters)) < len(characters):
        raise ValueError("network: a character occurs twice")
    for _ in ("forward", "backward"):
        network.floats(6 * dimension * (dimension + 1))
    for _ in ("forward", "backward"):
        network.floats(3 * (dimension + 1))
    for _ in range(network.number("number of categories", range(len(CATEGORIES) + 1))):
        network.number("category", CATEGORIES, size=4)
        network.number("character", CHARACTERS, size=4)
    network.end()


def _check_rules(rules: _Bytes, version: int) -> None:
    """Check strings with the words that they stand for: whole tokens and, from version 2 on, suffixes."""
    for _ in range(rules.number("number of rules", BLOCK_BYTES, size=4)):
        rules.string()
        _check_words(rules, of_suffix=False)
    suffixes = []
    if version >= 2:
        for _ in range(rules.number("number of suffixes", BLOCK_BYTES, size=4)):
            suffixes.append(rules.string())
            _check_words(rules, of_suffix=True)
    rules.end()
    if _bytes_in_memory(suffixes) > MOST_SUFFIX_BYTES:
        raise ValueError(f"rules: suffixes would take more than {MOST_SUFFIX_BYTES >> 20} MiB of memory")


def _check_words(rules: _Bytes, of_suffix: bool) -> None:
    """Check the words of a rule. of_suffix: whether the first word is cut, possibly within a character."""
    for number in range(rules.number("number of words", WORDS)):
        word, is_cut = rules.string(), of_suffix and number == 0
        try:
            form = (word.lstrip(CONTINUATIONS) if is_cut else word).decode("utf-8")
        except UnicodeDecodeError:
            raise ValueError(f"rules: the word {word[:20]!r} is not UTF-8") from None
        if not word and not is_cut:
            raise ValueError("rules: a word is empty")
        if any(character in form for character in BREAKS):
            raise ValueError(f"rules: the word {form[:20]!r} has a tab, a line end or a zero")


def _bytes_in_memory(suffixes: Iterable[bytes]) -> int:
    """The size of the library's table, which contains all suffixes of the suffixes once."""
    total, before = 0, b""
    for backwards in sorted(suffix[::-1] for suffix in suffixes):
        shared, length = sum(takewhile(bool, map(eq, before, backwards))), len(backwards)
        total += ENTRY_BYTES * (length - shared) + (length * (length + 1) - shared * (shared + 1)) // 2
        before = backwards
    return total
