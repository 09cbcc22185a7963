import gzip
import struct

import pytest
import torch

from parser.treebank.embeddings import read_vectors
from parser.treebank.text_files import MAX_LINE_LENGTH


@pytest.mark.parametrize("header", ["", "2 3\n", "\ufeff", "\ufeff2 3\n"])
def test_reads_text_vectors_with_and_without_header(tmp_path, header):
    path = tmp_path / "vectors.txt"
    path.write_text(header + "the 1 2 3\nof -1 0.5 1e-2\nthe 9 9 9\n", encoding="utf-8")
    words, vectors = read_vectors(str(path))
    assert words == ["the", "of"]
    torch.testing.assert_close(vectors, torch.tensor([[1, 2, 3], [-1, 0.5, 0.01]]))


def test_words_with_spaces(tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text("the 1 2\n. . . 3 4\nat name@domain.com 5 6\n. 7 8\n", encoding="utf-8")
    words, vectors = read_vectors(str(path))
    assert words == ["the", ". . .", "at name@domain.com", "."]
    torch.testing.assert_close(vectors, torch.arange(1.0, 9.0).view(4, 2))


def test_reads_gzip(tmp_path):
    path = tmp_path / "vectors.txt.gz"
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.write("a 1 2\n")
    assert read_vectors(str(path))[0] == ["a"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a 1 2\nb 1\n", ":2: 1 numbers instead of 2"),
        ("a 1 2\nb 1 2 3\n", ":2: 3 numbers instead of 2"),
        ("a 1 x\n", ":1: could not convert"),
        ("a 1 2\nb nan 1\n", ":2: a number that is not finite"),
        ("a 1 2\nb 1e39 1\n", ":2: a number that is not finite"),
        ("a\t1\t2\n", ":1: no numbers after the word"),
        ("", "no word vector"),
        ("a 1 2\nb " + "x" * 500 + " 1\n", f":2: could not convert string to float: '{'x' * 24}…$"),
        ("a 1\nb" + " b" * 400_000 + "\n", ":2: could not convert"),
        ("a 1\n" + "b" * (MAX_LINE_LENGTH + 1), ":2: the line is longer than"),
    ],
)
def test_invalid_text_files_are_refused_with_the_line(tmp_path, content, message):
    path = tmp_path / "vectors.txt"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_vectors(str(path))


def binary(words, header=None, between=b"\n"):
    size = len(next(iter(words.values())))
    content = header or f"{len(words)} {size}\n".encode()
    for word, vector in words.items():
        content += word.encode() + b" " + struct.pack(f"<{size}f", *vector) + between
    return content


@pytest.mark.parametrize("between", [b"\n", b""])
@pytest.mark.parametrize("name", ["vectors.bin", "vectors.bin.gz"])
def test_binary_files_of_word2vec(tmp_path, name, between):
    path = tmp_path / name
    expected = {"dog": [1.5, -2.0], "Ünïcode": [0.0, 3.25]}
    content = binary(expected, between=between)
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    words, vectors = read_vectors(str(path))
    assert dict(zip(words, vectors.tolist(), strict=True)) == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"dog 1 2\n", "does not begin with the number of words"),
        (b"2 2\ndog " + bytes(8), "no word where number 2 should be"),
        (b"1 2\ndog " + bytes(7), "ends in word 1 of 1"),
        (b"1 1\n\xff\xfe " + bytes(4), "word 1 is not UTF-8"),
        (b"0 5\n", "holds no word vector"),
        (b"1 1\ndog " + struct.pack("<f", float("inf")), "word 1, 'dog', has a number that is not finite"),
        (b"", "does not begin"),
        (b"1 999999999999\n", "says that a vector has 999,999,999,999 numbers"),
        (b"1 " + b"9" * 5000 + b"\n", "does not begin"),
    ],
)
def test_damaged_binary_files_are_refused(tmp_path, content, message):
    path = tmp_path / "vectors.bin"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_vectors(str(path))


def test_a_damaged_gzip_file_is_named(tmp_path):
    path = tmp_path / "vectors.bin.gz"
    path.write_bytes(gzip.compress(binary({"dog": [1.0]}))[:-9])
    with pytest.raises(ValueError, match=r"vectors\.bin\.gz: not a complete gzip file"):
        read_vectors(str(path))
