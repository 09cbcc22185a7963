"""Tokenizers of strangers: files not as written by UDPipe are refused, the others do no harm."""

import lzma
import random
import shutil
import struct
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest
from extended import extended

from parser.text.reading import TextReader
from parser.text.tokenizer_kinds import UDPipe, tokenizer_from_json
from parser.text.udpipe_format import refuse_unsound

pytest.importorskip("ufal.udpipe")

TRAINED = tokenizer_from_json(Path("tests/text/tokenizer.json").read_bytes()).content
START = b"\x12morphodita_parsito\x03\x7f\x7f\x01\x03\x02"
"""Everything before the block of the network."""
FILTERS = [{"id": lzma.FILTER_LZMA1, "dict_size": 1 << 20, "lc": 3, "lp": 0, "pb": 2}]
TEXT = "The cat sleeps. Don't go!  DON'T\r\n\r\nwww.example.org (\u00e9t\u00e9\u00a0\u3002) "
TEXT += f"\U0001f600\nanna's\t\x01 {'x' * 200}"
OPEN = """
import resource, sys
from pathlib import Path
from ufal import udpipe

resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
text, *paths = sys.stdin.buffer.read().decode().split("\\0")
for path in paths:
    Path(path).with_suffix(".begun").touch()
    resource.setrlimit(resource.RLIMIT_CPU, (int(sum(resource.getrusage(resource.RUSAGE_SELF)[:2])) + 20, -1))
    model = udpipe.Model.load(path)
    if not model:
        continue
    for options in ("ranges", "ranges;presegmented"):
        tokenizer, sentence, error = model.newTokenizer(options), udpipe.Sentence(), udpipe.ProcessingError()
        tokenizer.setText(text)
        while tokenizer.nextSentence(sentence, error):
            udpipe.OutputFormat.newConlluOutputFormat().writeSentence(sentence)
    print(path)
"""
"""Opens files without a check, and divides a text. Prints those that could be opened."""


def payload(content, place):
    """What is in the block at a place of a file, and where it ends."""
    size, compressed, _ = struct.unpack_from("<III", content, place)
    start = place + 17
    decompressor = lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=FILTERS)
    stream = content[start : start + compressed]
    return decompressor.decompress(stream, max_length=size), start + compressed


NETWORK, END_OF_NETWORK = payload(TRAINED, len(START))
RULES, END_OF_RULES = payload(TRAINED, END_OF_NETWORK + 1)


def streams(content):
    """Two streams, one of which UDPipe reads. Both leave out the end mark that Python writes.

    Some decoders, such as UDPipe's, read a byte that only the next symbol needs as soon as they can.
    """
    stream = lzma.compress(content, lzma.FORMAT_RAW, filters=FILTERS)
    decompressor = lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=FILTERS)
    end = max(0, len(stream) - 40)
    done = len(decompressor.decompress(stream[:end], max_length=len(content)))
    while done < len(content):
        done += len(decompressor.decompress(stream[end : end + 1], max_length=len(content) - done))
        end += 1
    return stream[:end], stream[: end + 1]


def blocks(content):
    for stream in streams(content):
        yield block(len(content), stream)


def block(size, stream, properties=b"\x5d\0\0\0\1"):
    check = (size * 19991 + len(stream) * 199999991 + 1234567890) % 2**32
    return struct.pack("<III", size, len(stream), check) + properties + stream


def files(network=NETWORK, rules=RULES, start=START, rules_version=2):
    """Files of which UDPipe reads one, if it accepts these contents."""
    for first, second in product(blocks(network), blocks(rules)):
        yield start + first + bytes([rules_version]) + second + b"\0\0"


def network(dimension=16, characters=(32, 97, 0x10FFFF), segment=50, weight=0.1, end=b"", version=2):
    def weights(count):
        return struct.pack("<f", weight) * count

    settings = struct.pack("<BHB", 2, segment, 1)[: version + 2] + bytes([1, dimension])
    embeddings = b"".join(struct.pack("<I", each) + weights(dimension) for each in characters)
    rest = weights(12 * dimension * (dimension + 1) + 6 * (dimension + 1))
    categories = b"\2" + struct.pack("<IIII", 1 << 1, 97, 1 << 30, 32)
    return settings + struct.pack("<I", len(characters)) + embeddings + rest + categories + end


def string(content):
    return (
        bytes([len(content)]) + content
        if len(content) < 255
        else b"\xff" + struct.pack("<I", len(content)) + content
    )


def rules(full=(), suffixes=(), count=None, end=b""):
    def section(entries):
        yield struct.pack("<I", len(entries) if count is None else count)
        for key, *words in entries:
            yield string(key) + bytes([len(words) % 256]) + b"".join(map(string, words))

    return b"".join([*section(full), *section(suffixes), end])


def opened(contents, folder):
    """The numbers of the files that the library opens, in a process that must not die."""
    folder.mkdir()
    paths = [folder / str(number) for number in range(len(contents))]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    told = "\0".join([TEXT, *map(str, paths)]).encode()
    done = subprocess.run([sys.executable, "-c", OPEN], input=told, capture_output=True, check=False)
    begun = sum(path.with_suffix(".begun").exists() for path in paths)
    assert done.returncode == 0, f"{paths[begun - 1]}: {done.returncode}\n{done.stderr.decode()}"
    return {int(Path(line).name) for line in done.stdout.decode().splitlines()}


def is_sound(content):
    try:
        refuse_unsound(content)
    except ValueError:
        return False
    return True


SOUND = {
    "as trained": (TRAINED,),
    "compressed again": files(),
    "dimension 16": files(network(16)),
    "dimension 24": files(network(24)),
    "dimension 64, as of many published models": files(network(64, range(32, 4000))),
    "the shortest segments": files(network(segment=10)),
    "the longest segments": files(network(segment=65535)),
    "no characters": files(network(characters=())),
    "large weights": files(network(weight=3e38)),
    "version 1 of the network": files(network(version=1), start=START[:-1] + b"\1"),
    "version 1 of the rules": files(rules=rules([(b"don't", b"do", b"n't")])[:-4], rules_version=1),
    "version 1 of the file": files(start=START[:19] + b"\1" + START[22:]),
    "version 2 of the file": files(start=START[:19] + b"\2" + START[20:]),
    "no rules": files(rules=rules()),
    "long words": files(rules=rules([(b"don't" * 60, b"do" * 150, b"n't" * 100)])),
    "an empty suffix, and a rest of a character": files(
        rules=rules((), [(b"", b"\x83", b"a"), (b"t", b"", b"b")])
    ),
    "many rules": files(rules=rules([(b"%d" % n, b"a", b"b") for n in range(20_000)])),
}


QUICK = "as trained", "compressed again", "no rules"


@pytest.mark.parametrize("name", [*QUICK, *extended(*((name,) for name in SOUND if name not in QUICK))])
def test_what_udpipe_writes_is_sound(name, tmp_path):
    contents = list(SOUND[name])
    for content in contents:
        refuse_unsound(content)
    assert len(opened(contents, tmp_path / "files")) == 1


def test_rules_of_strangers_give_what_they_say(tmp_path):
    """The first word of a suffix is what follows the beginning of the token, and need not be whole."""
    made = rules([(b"cat", b"c", b"a", b"t")], [(b"eps", b"\x83ep", b"s")])
    for content in files(NETWORK, made):
        if opened([content], tmp_path / str(len(list(tmp_path.iterdir())))):
            tokenizer = UDPipe(kind="udpipe").opened(content)
    [sentence] = TextReader("raw", tokenizer).sentences("The cat sleeps.")
    assert sentence.words == ("The", "c", "a", "t", "sle?ep", "s", ".")
    assert [token.form for token in sentence.tokens] == ["The", "cat", "sleeps", "."]


UNSOUND_FILES = [
    (b"", "file: ends too early"),
    (TRAINED[:1000], "file: ends too early"),
    (TRAINED + b"\0", "file: has 1 bytes after its end"),
    (b"\x10parsito_morpho" + TRAINED[19:], "file: name is another one"),
    (START[:19] + b"\4" + START[20:], "file: version is 4, which is out of bounds"),
    (START[:21] + b"\0" + START[22:], "file: mark after the version is another one"),
    (START[:22] + b"\0\0\0", "file: number of tokenizers is 0"),
    (START[:23] + b"\2\1", "file: kind of the tokenizer is 2"),
    (START[:24] + b"\3", "file: version of the network is 3"),
    (TRAINED[:-2] + b"\1\0", "file: number of taggers is 1"),
    (TRAINED[:-1] + b"\1", "file: number of parsers is 1"),
    (START + struct.pack("<I", 1 << 31), "file: size of the network is 2147483648"),
    (START + b"\0\0\0\0\xff\xff\xff\xff", "file: compressed size of the network is 4294967295"),
    (START + struct.pack("<III", 1, 1, 7), "file: check of the sizes of the network is 7"),
    (START + block(1, b"", b"\x5e\0\0\0\1"), "file: compression of the network is 94"),
    (START + block(1, b""), "network: has 0 bytes, not 1"),
    (START + block(1, b"\0" + b"\xff" * 30), "network: cannot be decompressed"),
]
UNSOUND_NETWORKS = [
    (b"\3" + NETWORK[1:], "rules for addresses is 3"),
    (network(segment=0), "length of segments is 0, which is out of bounds"),
    (network(segment=9), "length of segments is 9"),
    (NETWORK[:3] + b"\2" + NETWORK[4:], "whether tokens have spaces is 2"),
    (NETWORK[:4] + b"\2" + NETWORK[5:], "version of the GRU is 2"),
    (network(dimension=32), "dimension is 32"),
    (NETWORK[:6] + b"\xff" * 4 + NETWORK[10:], "number of characters is 4294967295"),
    (NETWORK[:6] + b"\xff\0\0\0" + NETWORK[10:], "(character is|a weight is not|ends too early)"),
    (network(characters=(0x110000,)), "character is 1114112"),
    (network(characters=(97, 97)), "a character occurs twice"),
    (network(weight=float("nan")), "a weight is not finite"),
    (network()[:-1], "ends too early"),
    (network(end=b"ab"), "has 2 bytes after its end"),
    (network()[:-17] + b"\x1f" + network()[-16:], "number of categories is 31"),
    (network()[:-16] + b"\3" + network()[-15:], "category is 3"),
    (network()[:-1] + b"\1", "character is 16777248"),
]
UNSOUND_RULES = [
    (rules(count=0xFFFFFFF0), "number of rules is 4294967280"),
    (rules([(b"a", b"b")], count=3), "ends too early"),
    (rules([(b"a",)]), "number of words is 0"),
    (rules([(b"a", *[b"b"] * 65)]), "number of words is 65"),
    (rules([(b"a", b"")]), "a word is empty"),
    (rules((), [(b"a", b"b", b"")]), "a word is empty"),
    (rules([(b"a", b"b" * 1024)]), "length of a string is 1024"),
    (rules([(b"a" * 1024, b"b")]), "length of a string is 1024"),
    (rules([(b"a", b"b\n", b"c")]), r"the word 'b\\n' has a tab"),
    (rules((), [(b"a", b"\tb", b"c")]), r"the word '\\tb' has a tab"),
    (rules([(b"a", b"b", b"\0")]), r"the word '\\x00' has a tab, a line end or a zero"),
    (rules([(b"a", b"\x80b", b"c")]), r"the word b'\\x80b' is not UTF-8"),
    (rules((), [(b"a", b"b", b"\xff")]), r"the word b'\\xff' is not UTF-8"),
    (rules((), [(b"a", b"\xc0\x8ab", b"c")]), r"the word b'\\xc0\\x8ab' is not UTF-8"),
    (rules(end=b"\0"), "has 1 bytes after its end"),
    (rules((), [(b"%d" % n * 250, b"b") for n in range(1000, 2000)]), "suffixes would take more"),
]
UNSOUND = [([content], message) for content, message in UNSOUND_FILES]
UNSOUND += [(files(content), f"network: {message}") for content, message in UNSOUND_NETWORKS]
UNSOUND += [(files(rules=content), f"rules: {message}") for content, message in UNSOUND_RULES]


@pytest.mark.parametrize(("contents", "message"), UNSOUND, ids=[message for _, message in UNSOUND])
def test_what_udpipe_does_not_write_is_refused(contents, message):
    for content in contents:
        with pytest.raises(
            ValueError, match=f"^not a sound tokenizer of UDPipe 1: {message}.*; get the model again"
        ):
            refuse_unsound(content)


def changed(content, draw):
    """The content with some bytes changed, removed or duplicated, or replaced by small and large numbers."""
    data = bytearray(content)
    for _ in range(draw.choice([1, 1, 2, 5])):
        # Most parts have numbers at the start and the end.
        near = min(len(data), draw.choice([12, 60, len(data)]))
        place = draw.choice([draw.randrange(near), len(data) - 1 - draw.randrange(near)])
        size = draw.choice([1, 2, 4])
        number = draw.choice([0, 1, 2, 9, 255, 256, 1 << 16, 1 << 31, 0xFFFFFFFF, draw.randrange(1 << 32)])
        change = draw.randrange(5)
        if change == 0:
            data[place] ^= 1 << draw.randrange(8)
        elif change == 1:
            data[place : place + size] = (number % (1 << 8 * size)).to_bytes(size, "little")
        elif change == 2:
            del data[place : place + draw.choice([1, 4, 100])]
        elif change == 3:
            data[place:place] = data[place : place + draw.choice([1, 4, 100])]
        else:
            data = data[: place + 1] if draw.random() < 0.3 else data
        data = data or bytearray(1)
    return bytes(data)


def mutated(draw):
    """A file with some changes, or two files with changes in a block, one of which the library may read."""
    part = draw.randrange(4)
    if part == 0:
        return [changed(TRAINED, draw)]
    if part == 1:
        segment = draw.choice([0, 1, 9, 10, 50, 65535])  # with 0, the library fails without the check
        content = changed(draw.choice([NETWORK, network(64, range(40)), network(segment=segment)]), draw)
        return [START + first + TRAINED[END_OF_NETWORK:] for first in blocks(content)]
    made = rules(
        [(b"cat", b"c", b"at"), (b"x", b"y")], [(b"'t", b"n", b"o\xcc\x81"), (b"s", b"", b"\xc3\xa9")]
    )
    content = changed(draw.choice([RULES, made]), draw)
    return [TRAINED[: END_OF_NETWORK + 1] + second + b"\0\0" for second in blocks(content)]


@pytest.mark.parametrize("batches", [*extended((1,)), pytest.param(200, marks=pytest.mark.soak)])
def test_what_is_not_refused_does_no_harm(batches, tmp_path):
    """Damaged files that pass the check are opened and used by a process with limits."""
    for batch in range(batches):
        seeds, folder = range(300 * batch, 300 * (batch + 1)), tmp_path / str(batch)
        drawn = [mutated(random.Random(seed)) for seed in seeds]
        sound = [content for contents in drawn for content in contents if is_sound(content)]
        assert 30 < len(sound) < 300
        assert 10 < len(opened(sound, folder)) < len(sound)
        shutil.rmtree(folder)
