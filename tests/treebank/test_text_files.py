"""Standard input that waits for another program yields what has arrived."""

import os
import sys
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parser.treebank import text_files
from parser.treebank.conllu import blocks, blocks_as_they_come, sentences_as_they_come
from parser.treebank.text_files import UnboundedError

WORD = "1\t{}\t_\t_\t_\t_\t0\troot\t_\t_\n"


@pytest.fixture
def pipe(monkeypatch):
    """The writing end of standard input."""
    reading, writing = os.pipe()
    with os.fdopen(reading) as stdin, os.fdopen(writing, "wb", buffering=0) as file:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield file


def next_there(sentences):
    return next(one for one in sentences if one is not None)


def test_a_sentence_is_there_as_soon_as_its_blank_line(pipe):
    found = sentences_as_they_come("-")
    for form in ("a", "é", "c"):
        pipe.write((WORD.format(form) + "\n").encode())
        assert next_there(found).forms == (form,)
    assert next(found) is None
    pipe.write(WORD.format("d").encode())  # without a blank line, as at the end of a file
    pipe.close()
    assert next_there(found).forms == ("d",)
    assert [one for one in found if one is not None] == []


def test_a_character_may_come_in_pieces(pipe):
    whole = (WORD.format("é") + "\n").encode()
    middle = whole.index("é".encode()) + 1
    found = sentences_as_they_come("-")
    pipe.write(whole[:middle])
    assert next(found) is None
    pipe.write(whole[middle:])
    assert next_there(found).forms == ("é",)
    pipe.close()


def test_a_line_without_end_is_refused(pipe, monkeypatch):
    monkeypatch.setattr(text_files, "MAX_LINE_LENGTH", 100)
    pipe.write(b"a\n" + b"b" * 101)
    lines = text_files.lines_as_they_come()
    with pytest.raises(UnboundedError) as error:
        list(lines)
    assert error.value.line == 2


def test_a_file_does_not_wait(tmp_path, monkeypatch):
    (tmp_path / "file").write_text(WORD.format("a"))
    with open(tmp_path / "file") as file:
        monkeypatch.setattr(sys, "stdin", file)
        assert not text_files.waits("-")
    assert not text_files.waits(str(tmp_path / "file"))


LINES = st.sampled_from(["1\ta\n", "# text\n", "\n", " \n"])


@given(st.lists(st.one_of(LINES, st.none()), max_size=30))
def test_blocks_have_the_same_lines_whenever_these_come(lines):
    there = [line for line in lines if line is not None]
    found = [block for block in blocks_as_they_come(lines) if block is not None]
    expected = list(blocks(there))
    words = [line for block in found for line in block.lines if line.strip()]
    assert words == [line for line in there if line.strip()]
    assert [block.ordinal for block in found] == [block.ordinal for block in expected]
    for block in found:
        assert list(block.lines) == there[block.line - 1 : block.line - 1 + len(block.lines)]


def test_an_error_names_standard_input(monkeypatch):
    closed = os.open(os.devnull, os.O_RDONLY)
    os.close(closed)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(fileno=lambda: closed))
    with pytest.raises(OSError, match="Bad file descriptor: 'standard input'"):
        list(text_files.chunks_as_they_come())
