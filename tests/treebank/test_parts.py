"""Parts of a file contain what reading it as a whole finds, wherever the chunks that are read end."""

import tracemalloc
from dataclasses import astuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from parser.treebank import conllu
from parser.treebank.conllu import BLANK_LINE, TreebankPart, read_part, shares, stream_parts, stream_sentences
from parser.treebank.conllu_faults import Faults, TreebankError
from parser.treebank.text_files import MAX_LINE_LENGTH

WORD = b"1\ta\t_\t_\t_\t_\t0\troot\t_\t_\n"
PIECES = [WORD, b"# a comment\n", b"# sent_id = s\n", b"faulty\n", b"\n", b"\n\n", b"\r\n", b" ", b"\t\n"]
PIECES += ["\ufeff".encode(), "\u2028\n".encode(), "\xa0\n".encode(), b"\xff\n", b"\x85\n", b"\x1c\n", b"x"]


def cut(chunks, least=0):
    """The parts of a file, none of which waits for more than `least` bytes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conllu, "PART_BYTES", least)
        return list(conllu.parts(chunks))


def read(file, size):
    """All sentences before the first fault, with their positions, and all faults."""
    sentences, faults = [], Faults()
    for part in cut(file[begin : begin + size] for begin in range(0, len(file), size)):
        found, own = read_part(part, tree=True)
        if not faults.total:
            sentences += found
        faults.merge(own)
    return [(each.line, each.identifier, each.lines) for each in sentences], faults.first, faults.total


@given(st.lists(st.sampled_from(PIECES), max_size=40).map(b"".join), st.integers(1, 100))
@example(b"\n\n \n" + WORD + b"\n" + WORD, 3)
@example("\xa0\n".encode() + WORD + "\ufeff \n\u2028\r\n\n".encode() + WORD, 1)
def test_a_file_read_in_parts_is_the_file_read_as_a_whole(file, size):
    assert read(file, size) == read(file, len(file) + 1)
    assert b"".join(part.content for part in cut([file[:size], file[size:]])) == file


@given(st.lists(st.sampled_from(PIECES), max_size=40).map(b"".join))
def test_parts_of_one_sentence_begin_where_its_block_begins(file):
    text = file.decode("utf-8", "surrogateescape").split("\n")
    blocks = list(conllu.blocks([line + "\n" for line in text[:-1]] + [text[-1]] * bool(text[-1])))
    found = cut(file[place : place + 1] for place in range(len(file)))
    if not blocks:
        assert len(found) == bool(file)
        return
    # The last two are one part.
    assert [(part.line, part.ordinal) for part in found] == [
        (block.line, block.ordinal) for block in blocks[: len(found)]
    ]
    assert len(found) >= len(blocks) - 2


@given(st.lists(st.sampled_from(PIECES), max_size=40).map(b"".join), st.integers(1, 100), st.integers(0, 100))
@example(b"\n\n\n\n\xff\n\n\xff\n\n", 1, 10)
def test_a_file_that_is_no_larger_than_a_part_is_one(file, size, least):
    found = cut((file[begin : begin + size] for begin in range(0, len(file), size)), least)
    assert b"".join(part.content for part in found) == file
    assert len(found) == bool(file) or len(file) > least


def test_every_white_space_of_unicode_makes_a_blank_line():
    for code in range(0x110000):
        if chr(code).isspace():
            assert BLANK_LINE.match(f"\n{chr(code)}\n".encode()) or chr(code) == "\n"


@pytest.fixture
def file(tmp_path):
    """A file of many sentences, of which one in the middle may be replaced."""

    def write(middle=WORD):
        path = tmp_path / "file.conllu"
        path.write_bytes((WORD + b"\n") * 100 + middle + b"\n" + (WORD + b"\n") * 100)
        return str(path)

    return write


def faults_of(path):
    with pytest.raises(TreebankError) as whole:
        list(stream_sentences(path))
    faults = Faults()
    for part in stream_parts(path):
        faults.merge(read_part(part, tree=True)[1])
    assert [astuple(fault) for fault in faults.first] == [astuple(fault) for fault in whole.value.faults]
    return faults


def test_a_line_that_is_too_long_ends_the_file(file, monkeypatch):
    monkeypatch.setattr(conllu, "PART_BYTES", 1000)
    path = file(WORD + b"x" * (MAX_LINE_LENGTH + 1) + b"\n" + WORD)
    with open(path, "ab") as opened:
        opened.write(b"another fault\n\n")
    assert [(fault.line, fault.sentence) for fault in faults_of(path).first] == [(202, "")]


def test_a_sentence_that_is_too_large_ends_the_file(file, monkeypatch):
    monkeypatch.setattr(conllu, "PART_BYTES", 1000)
    monkeypatch.setattr(conllu, "MAX_SENTENCE_BYTES", 20_000)
    monkeypatch.setattr(conllu, "MAX_BLOCK_BYTES", 10_000)
    path = file(("# ä" + "ä" * 400 + "\n").encode() * 50 + WORD)
    [fault] = faults_of(path).first
    assert (fault.line, "nothing is read after it" in fault.message) == (201, True)
    read_bytes = sum(len(part.content) for part in stream_parts(path))
    assert read_bytes < 40_000  # no more of a sentence is kept


@pytest.mark.parametrize("size", [10, 1000, 1_000_000])
def test_a_file_is_streamed(file, monkeypatch, size):
    monkeypatch.setattr(conllu, "PART_BYTES", size)
    found = [read_part(part, tree=True) for part in stream_parts(file())]
    assert [each for sentences, _ in found for each in sentences] == list(stream_sentences(file()))
    assert not any(faults.total for _, faults in found)


@given(st.lists(st.sampled_from(PIECES), max_size=60).map(b"".join), st.integers(1, 9), st.integers(1, 99))
def test_the_shares_of_a_part_are_the_part(content, processes, least):
    whole = TreebankPart(7, 4, content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conllu, "LEAST_SHARE", least)
        found = list(shares(whole, processes))
    assert b"".join(part.content for part in found) == content
    expected, faults = read_part(whole, tree=True)
    sentences, faults_of_shares = [], Faults()
    for part in found:
        own, faults_of_share = read_part(part, tree=True)
        sentences += [] if faults_of_shares.total else own
        faults_of_shares.merge(faults_of_share)
    assert (sentences, faults_of_shares) == (expected, faults)


@pytest.mark.parametrize(
    ("processes", "least", "expected"), [(2, 1, 2), (3, 1, 3), (16, 1000, 5), (2, 9999, 1)]
)
def test_shares_are_about_equal(file, monkeypatch, processes, least, expected):
    monkeypatch.setattr(conllu, "LEAST_SHARE", least)
    part = next(stream_parts(file()))
    sizes = [len(share.content) for share in shares(part, processes)]
    assert expected <= len(sizes) <= expected + 1
    assert max(sizes) < 1.2 * max(least, len(part.content) / processes)


@pytest.mark.extended
def test_blank_lines_without_end_take_little_memory():
    tracemalloc.start()
    [part] = conllu.parts([b"\n" * 100_000] * 20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(part.content) == 2_000_000
    assert peak < 10_000_000
