"""Damaged treebanks are refused with line numbers, or read and written back byte by byte.

`make soak` tests 100,000 of them.
"""

import os
import random
from pathlib import Path

from parser.treebank.conllu import read_treebank, stream_sentences
from parser.treebank.conllu_output import with_tree
from parser.treebank.faults import TreebankError
from parser.treebank.text_files import open_text

FILES = int(os.environ.get("PARSER_FUZZ", "300"))
JUNK = [
    b"\t",
    b"\n",
    b"\r\n",
    b"\r",
    b" ",
    b"#",
    b"_",
    b"-",
    b".",
    b"0",
    b"1",
    b"1-2",
    b"1.1",
    b"\0",
    b"\xff",
]
JUNK += [
    b"\xc3\xa4",
    b"\xe2\x86\x91",
    b"\xef\xbb\xbf",
    b"\xe2\x80\xa8",
    b"\x85",
    b"9" * 5000,
    b"=",
    b"|",
]


def damaged(content: bytes, draw: random.Random) -> bytes:
    """Some sentences of a treebank with some random changes."""
    sentences = content.split(b"\n\n")
    start = draw.randrange(len(sentences))
    data = b"\n\n".join(sentences[start : start + draw.randint(1, 4)]) + b"\n\n"
    for _ in range(draw.choice([1, 1, 1, 2, 3, 8])):
        data = draw.choice(CHANGES)(data, draw) or data
    return data


def changed_span(data: bytes, draw: random.Random) -> bytes:
    """Delete, double or replace some bytes."""
    start = draw.randrange(len(data) + 1)
    end = min(len(data), start + draw.choice([0, 0, 1, 1, 5, 30]))
    middle = draw.choice([b"", draw.choice(JUNK), draw.choice(JUNK), data[start:end] * 2])
    return data[:start] + middle + data[end:]


def cut(data: bytes, draw: random.Random) -> bytes:
    return data[: draw.randrange(len(data))]


def lost_or_shuffled_lines(data: bytes, draw: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    kept = [line for line in lines if draw.random() < 0.9]
    return b"".join(draw.choice([kept, draw.sample(lines, len(lines))]))


def other_separators(data: bytes, draw: random.Random) -> bytes:
    if draw.random() < 0.3:
        return data.replace(b"\n", b"\r\n")
    return data.replace(b"\t", draw.choice([b" ", b"\t\t", b"  "]), draw.randint(1, 20))


def other_heads(data: bytes, draw: random.Random) -> bytes:
    number = b"\t%d\t" % draw.randrange(40)
    return data.replace(draw.choice([b"\t0\t", b"\t2\t", b"\t3\t"]), number, draw.randint(1, 3))


CHANGES = (changed_span, changed_span, cut, lost_or_shuffled_lines, other_separators, other_heads)


def check(path: Path) -> bool:
    """Whether the file is accepted. If it is, writing must reproduce it."""
    try:
        sentences = read_treebank(str(path))
    except TreebankError as refused:
        error = refused
    else:
        error = None
    if error:
        assert all(line.startswith(f"{path}:") for line in str(error).splitlines())
        assert error.faults
        return False
    with open_text(str(path)) as file:
        assert "".join(line for sentence in sentences for line in sentence.lines) == file.read()
    for sentence in sentences:
        assert with_tree(sentence, sentence.heads, sentence.labels) == sentence.lines
        assert sentence.heads.count(0) == 1
        for word in range(1, len(sentence) + 1):
            climbed = 0
            while word:
                word, climbed = sentence.heads[word - 1], climbed + 1
                assert climbed <= len(sentence)
    assert list(stream_sentences(str(path))) == sentences
    return True


def test_damaged_treebanks(tmp_path):
    contents = [path.read_bytes() for path in sorted(Path("data/quickstart").glob("*.conllu"))]
    path, accepted = tmp_path / "damaged.conllu", 0
    for number in range(FILES):
        draw = random.Random(number)
        path.write_bytes(damaged(draw.choice(contents), draw))
        try:
            accepted += check(path)
        except Exception as error:
            raise AssertionError(f"file number {number}: {path.read_bytes()!r}") from error
    assert FILES / 20 < accepted < FILES
