"""Sentences of texts, by a tokenizer that was trained on the treebank that ships with the project."""

from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parser.text import reading
from parser.text.reading import (
    BLANKS,
    BY_LINES,
    TextPart,
    TextReader,
    read_parts,
    shares,
    stream_text,
)
from parser.text.tokenizer import as_sentence
from parser.text.tokenizer_kinds import DividedText, tokenizer_from_json
from parser.treebank.conllu_output import numbered_from

KEPT = Path("tests/text/tokenizer.json")


@pytest.fixture(scope="module")
def tokenizer():
    kept = tokenizer_from_json(KEPT.read_bytes())
    return kept.settings.opened(kept.content())


def plain_paragraphs(text):
    """The paragraphs of a text, found line by line."""
    found, lines = [], []
    for line in [*text.split("\n"), ""]:
        if line.strip():
            lines.append(line)
        elif lines:
            found.append("\n".join(lines))
            lines = []
    return found


def without_space(text):
    return "".join(text.translate(BLANKS).split())


def test_sentences_tokens_and_words(tokenizer):
    text = "The cat sleeps.  Don't\ngo!\n\nWas it round?\n"
    found = list(TextReader("wrapped", tokenizer).sentences(text))
    assert [one.text for one in found] == ["The cat sleeps.", "Don't go!", "Was it round?"]
    assert [one.begins_paragraph for one in found] == [True, False, True]
    assert [[token.form for token in one.tokens] for one in found][1] == ["Don't", "go", "!"]
    assert found[1].words == ("Do", "n't", "go", "!")
    for one in found:
        for token in one.tokens:
            assert text[token.start : token.end] == token.form
            assert token.space_after == (text[token.end].isspace())


def test_lines_of_a_sentence(tokenizer):
    [found] = TextReader("raw", tokenizer).sentences("\n Don't  go.\n", offset=100)
    sentence = as_sentence(found, 7)
    blank = "\t_" * 7
    assert "".join(sentence.lines) == (
        "# newpar\n# sent_id = 7\n# text = Don't go.\n"
        f"1-2\tDon't{blank}\tTokenRange=102:107\n1\tDo{blank}\t_\n2\tn't{blank}\t_\n"
        f"3\tgo{blank}\tSpaceAfter=No|TokenRange=109:111\n4\t.{blank}\tTokenRange=111:112\n\n"
    )
    assert [sentence.lines[index].split("\t")[1] for index in sentence.word_lines] == list(sentence.forms)


def test_numbers_go_on_in_the_next_part(tokenizer):
    [found] = TextReader("raw", tokenizer).sentences("The cat sleeps.")
    lines = "".join(as_sentence(found, 2).lines).encode()
    assert b"# sent_id = 42\n" in numbered_from(40, lines)
    assert numbered_from(0, lines) == lines
    in_text = b"# text = # sent_id = 3\n1\t# sent_id = 3\n"
    assert numbered_from(1, in_text) == in_text


def test_a_sentence_in_each_line(tokenizer):
    text = "The cat. The dog.\n\n  \nDon't go\n"
    found = list(TextReader("one-sentence-per-line", tokenizer).sentences(text))
    assert [one.words for one in found] == [("The", "cat", ".", "The", "dog", "."), ("Do", "n't", "go")]
    assert not any(one.begins_paragraph for one in found)
    assert [text[one.tokens[0].start : one.tokens[-1].end] for one in found] == [
        "The cat. The dog.",
        "Don't go",
    ]


def test_tokenized_text_is_divided_by_lines_and_blanks():
    text = "Don't  go .\r\n\r\nyes\u00a0sir\n"
    found = list(TextReader("tokenized", DividedText(by_lines=True)).sentences(text, offset=5))
    assert [one.words for one in found] == [("Don't", "go", "."), ("yes", "sir")]
    assert (found[1].tokens[1].start, found[1].tokens[1].end) == (
        5 + text.index("sir"),
        5 + text.index("\n", 20),
    )


@given(st.text(st.sampled_from("\n\r\t \0\ufeff.a'"), max_size=80))
def test_each_paragraph_of_any_text_begins_one(tokenizer, text):
    paragraphs = filter(None, map(without_space, plain_paragraphs(text.translate(BLANKS))))
    found = TextReader("wrapped", tokenizer).sentences(text)
    assert [one.begins_paragraph for one in found].count(True) == len(list(paragraphs))


class Recorder:
    """A tokenizer that only keeps the paragraphs it gets."""

    def sentences(self, paragraphs, is_sentence):
        self.paragraphs = list(paragraphs)
        return iter(())


@pytest.mark.parametrize("form", ["wrapped", "one-sentence-per-line"])
@given(st.text(st.sampled_from("\n\r\t \0\ufeff.a'"), max_size=80))
def test_a_tokenizer_gets_paragraphs_without_white_space_around_them(form, text):
    recorder = Recorder()
    list(TextReader(form, recorder).sentences(text, 7))
    text = text.translate(BLANKS)
    lines = [line for line in text.split("\n") if line.strip()]
    expected = plain_paragraphs(text) if form == "wrapped" else lines
    assert [each.text for each in recorder.paragraphs] == list(map(str.strip, expected))
    for each in recorder.paragraphs:
        assert text[each.offset - 7 :].startswith(each.text)


def parts_of(content, tmp_path):
    (tmp_path / "text").write_bytes(content)
    return list(stream_text(str(tmp_path / "text")))


def test_parts_end_at_blank_lines(tmp_path, monkeypatch):
    assert parts_of(b"", tmp_path) == []
    monkeypatch.setattr(reading, "PART_BYTES", 16)
    text = "".join(f"{'ä' * length}\n{length}\n \n" for length in range(1, 30))
    found = parts_of(text.encode(), tmp_path)
    assert "".join(part.content for part in found) == text
    assert [part.offset for part in found] == [
        len("".join(part.content for part in found[:number])) for number in range(len(found))
    ]
    assert len(found) > 10
    assert all(part.content.endswith("\n \n") for part in found)


@pytest.mark.parametrize(
    "form", ["raw", "wrapped", "one-paragraph-per-line", "one-sentence-per-line", "tokenized"]
)
@given(
    st.lists(
        st.sampled_from(["The cat sleeps.", "Don't go!", "\n", "\n\n", " \r\n", " ", "\ufeff"]), max_size=40
    ),
    st.integers(1, 9),
    st.integers(1, 30),
)
def test_the_shares_of_a_part_have_its_sentences(tokenizer, form, pieces, processes, least):
    whole = TextPart(5, "".join(pieces))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "LEAST_SHARE", least)
        found = list(shares(whole, processes, form in BY_LINES))
    reader = TextReader(form, tokenizer if form != "tokenized" else DividedText(True))
    assert "".join(part.content for part in found) == whole.content
    assert list(read_parts(reader, found)) == list(read_parts(reader, [whole]))
    assert len(found) <= processes


@pytest.mark.parametrize("separator", ["\n", " ", ""])
def test_a_paragraph_without_end_is_divided(tmp_path, monkeypatch, separator):
    monkeypatch.setattr(reading, "PART_BYTES", 16)
    monkeypatch.setattr(reading, "LONGEST_PARAGRAPH", 40)
    text = separator.join(["straße€"] * 100)
    found = parts_of(text.encode(), tmp_path)
    assert "".join(part.content for part in found) == text
    assert len(found) > 10
    assert all(part.content.endswith(separator) for part in found[:-1])


def test_with_a_sentence_in_each_line_parts_end_at_lines(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "PART_BYTES", 16)
    (tmp_path / "text").write_text("Don't go.\n" * 100)
    found = list(stream_text(str(tmp_path / "text"), by_lines=True))
    assert "".join(part.content for part in found) == "Don't go.\n" * 100
    assert len(found) > 40
    assert all(part.content.endswith("\n") for part in found)


@pytest.mark.parametrize("word", ["word ", "日本", "x日本", "xx日本"])
@pytest.mark.parametrize("end", [b"", b"\n", b"\nmore\n"])
def test_a_line_without_end_is_named(tmp_path, monkeypatch, word, end):
    monkeypatch.setattr(reading, "PART_BYTES", 16)
    monkeypatch.setattr(reading, "MAX_LINE_LENGTH", 100)
    (tmp_path / "text").write_bytes(b"Short.\n" * 5 + word.encode() * 400 + end)
    with pytest.raises(ValueError, match=r"text:6: the line is longer than .* characters: is this a text"):
        list(stream_text(str(tmp_path / "text"), by_lines=True))
    assert len(list(stream_text(str(tmp_path / "text")))) >= 1


def test_no_line_is_longer_than_the_limit(tmp_path, monkeypatch):
    """Not even by a little, when a part contains the line together with its end."""
    monkeypatch.setattr(reading, "MAX_LINE_LENGTH", 100)
    for length in (100, 101, 399):
        (tmp_path / "text").write_text("Short.\n" + "a" * length + "\nShort.\n")
        parts = stream_text(str(tmp_path / "text"), by_lines=True)
        if length == 100:
            assert len(list(parts)) == 1
        else:
            with pytest.raises(ValueError, match="text:2: the line is longer"):
                list(parts)


def test_what_is_not_utf_8_is_named_with_its_line(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "PART_BYTES", 4)
    with pytest.raises(ValueError, match=r"text:4: byte 0xff is not UTF-8; convert"):
        parts_of(b"One.\n\nTwo.\nThree \xff\n", tmp_path)


def test_byte_order_marks_are_blank_space_and_count_as_characters(tokenizer, tmp_path):
    text = "\ufeffThe cat\ufeff sleeps.\n\ufeff\nWas\ufeffit round?\n"
    reader = TextReader("raw", tokenizer)
    tokens = [
        token
        for part in parts_of(text.encode(), tmp_path)
        for sentence in reader.sentences(part.content, part.offset)
        for token in sentence.tokens
    ]
    assert [token.form for token in tokens] == ["The", "cat", "sleeps", ".", "Was", "it", "round", "?"]
    assert all(text[token.start : token.end] == token.form for token in tokens)


@pytest.mark.parametrize("by_lines", [True, False])
def test_byte_order_marks_are_blank_space_in_divided_text(by_lines):
    [found] = TextReader("raw", DividedText(by_lines)).sentences("\ufeffThe\ufeffcat \ufeff sleeps\ufeff")
    assert (found.words, found.text) == (("The", "cat", "sleeps"), "The cat sleeps")


def test_in_parts_as_in_one_piece(tokenizer, tmp_path, monkeypatch):
    text = "The cat sleeps. Don't go!\nWas it round?\n\nShe cried." * 50
    reader = TextReader("raw", tokenizer)
    [whole] = parts_of(text.encode(), tmp_path)
    monkeypatch.setattr(reading, "PART_BYTES", 100)
    several = parts_of(text.encode(), tmp_path)
    assert len(several) > 10
    assert list(read_parts(reader, several)) == list(read_parts(reader, [whole]))


PIECES = st.lists(
    st.one_of(st.none(), st.sampled_from([b"a.", b" ", b"\n", b"\n\n", "é".encode()])), max_size=30
)


@given(PIECES, st.booleans())
def test_what_is_complete_comes_before_the_text_lets_wait(pieces, by_lines):
    found = list(reading._contents(pieces, by_lines))
    assert found.count(None) == pieces.count(None)
    end = b"\n" if by_lines else b"\n\n"
    there, given = b"", iter(found)
    for number, piece in enumerate(pieces):
        if piece is None:
            there += b"".join(iter(partial(next, given), None))
            whole = b"".join(filter(None, pieces[:number]))
            assert whole.startswith(there)
            assert end not in whole[len(there) :]
    assert there + b"".join(given) == b"".join(filter(None, pieces))
