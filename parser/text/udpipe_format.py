"""The format of a tokenizer of UDPipe 1, which is read here before the library reads it.

A model may come from a stranger, and the library believes what it reads. Segments of no characters make it
read beyond its memory; numbers of bytes, characters and rules decide how much memory it takes, and what it
cannot take ends the program; words of rules stand in what it writes, with tabs and line ends if they have
any. What it checks itself is that it reads nothing beyond the end of the file or of a block.

    18 morphodita_parsito, version, (127 127 from version 2), 1: a tokenizer, 3: a GRU
    version, block: the GRU, its settings and characters
    version, block: the rules for multiword tokens
    0: no taggers, 0: no parser

Numbers are little-endian, unsigned, and of one byte where nothing else is said. A block has the numbers of
its bytes, decompressed and compressed, and a check of both, in four bytes each; five bytes of properties; and
a stream of LZMA without an end mark. `_check_network` and `_check_rules` show what is in them.
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
"""Of LZMA as the library writes it: a context of 3 bits of the byte before and 2 of the place."""
SMALLEST_DICTIONARY = 1 << 12
BLOCK_BYTES = range(1 << 24)
"""Decompressed. A large one has a million; in memory a block takes up to some forty times as much."""
DIMENSIONS = 16, 24, 64
"""For which the library is compiled."""
SEGMENTS = range(10, 1 << 16)
"""Characters that the GRU sees at once. The library trains none for shorter segments."""
CHARACTERS = range(0x110000)
MOST_EMBEDDINGS = 1 << 16
CATEGORIES = frozenset(1 << number for number in range(1, 31))
"""Of characters in Unicode, as the library numbers them."""
LONG_STRING = 255
"""Of this number of bytes or more, which stands behind it."""
STRING_BYTES = range(1 << 10)
WORDS = range(1, 65)
"""Of a multiword token. Treebanks have up to about ten."""
BREAKS = "\0\t\n\r"
"""Which no column of a treebank can have."""
CONTINUATIONS = bytes(range(0x80, 0xC0))
"""Bytes of UTF-8 that begin no character."""
ENTRY_BYTES = 128
"""Of an entry of the library's table of suffixes, beside the suffix."""
MOST_SUFFIX_BYTES = 1 << 29


def refuse_unsound(content: bytes) -> None:
    """Raises ValueError for all but the file of a tokenizer that the library can read without harm."""
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
    """Bytes that are read one after the other. All methods raise ValueError."""

    def __init__(self, content: bytes, name: str):
        """name: for messages."""
        self._content, self._name, self._place = content, name, 0

    def take(self, count: int) -> bytes:
        start, self._place = self._place, self._place + count
        if self._place > len(self._content):
            raise ValueError(f"{self._name}: ends too early")
        return self._content[start : self._place]

    def expect(self, content: bytes, what_is: str) -> None:
        if self.take(len(content)) != content:
            raise ValueError(f"{self._name}: {what_is} is another one")

    def number(self, what_is: str, allowed: Container[int], size: int = 1) -> int:
        """size: in bytes."""
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
        if rest := len(self._content) - self._place:
            raise ValueError(f"{self._name}: goes on for {rest:,} bytes behind its end")


def _check_file(file: _Bytes) -> None:
    file.expect(START, "name")
    if file.number("version", range(1, 4)) > 1:
        file.expect(SENTINEL, "mark behind the version")
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
    """The next block. Two decoders of LZMA give the same bytes, or one of them refuses the stream."""
    import lzma  # which not every Python has

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
    characters = [
        _character_with_embedding(network, dimension)
        for _ in range(network.number("number of characters", range(MOST_EMBEDDINGS), size=4))
    ]
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


def _character_with_embedding(network: _Bytes, dimension: int) -> int:
    character = network.number("character", CHARACTERS, size=4)
    network.floats(dimension)
    return character


def _check_rules(rules: _Bytes, version: int) -> None:
    """Strings, each with the words it stands for: of whole tokens, and from version 2 on of suffixes."""
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
    """of_suffix: whether the first word is one without its beginning, of which it can have any bytes."""
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
    """Of the library's table, which has all suffixes of the suffixes, each once."""
    total, before = 0, b""
    for backwards in sorted(suffix[::-1] for suffix in suffixes):
        shared, length = sum(takewhile(bool, map(eq, before, backwards))), len(backwards)
        total += ENTRY_BYTES * (length - shared) + (length * (length + 1) - shared * (shared + 1)) // 2
        before = backwards
    return total
