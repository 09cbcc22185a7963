import gzip

import pytest
import torch

from parser.treebank.embeddings import read_vectors


@pytest.mark.parametrize("header", ["", "2 3\n"])
def test_reads_text_vectors_with_and_without_header(tmp_path, header):
    path = tmp_path / "vectors.txt"
    path.write_text(header + "the 1 2 3\nof -1 0.5 1e-2\nthe 9 9 9\n", encoding="utf-8")
    words, vectors = read_vectors(str(path))
    assert words == ["the", "of"]
    torch.testing.assert_close(vectors, torch.tensor([[1, 2, 3], [-1, 0.5, 0.01]]))


def test_reads_gzip(tmp_path):
    path = tmp_path / "vectors.txt.gz"
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.write("a 1 2\n")
    assert read_vectors(str(path))[0] == ["a"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a 1 2\nb 1\n", ":2: 1 numbers instead of 2"),
        ("a 1 x\n", ":1: could not convert"),
        ("", "no word vector"),
    ],
)
def test_says_where_a_file_is_wrong(tmp_path, content, message):
    path = tmp_path / "vectors.txt"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_vectors(str(path))
