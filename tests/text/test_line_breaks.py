"""Line ends in raw text: those of lists, mails, verse, chats and tables end sentences, and those of wrapped
paragraphs do not. In line_texts.txt, each sentence ends with a mark that is not part of the text."""

import re
import textwrap
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parser.text.line_breaks import NARROWEST, divided_at_lines
from parser.text.of_model import text_reader
from parser.text.tokenizer import Paragraph

END = "¶"
BLOCKS = Path("tests/text/line_texts.txt").read_text(encoding="utf-8").split("=== ")[1:]
TEXTS = {name: text.rstrip("\n") for name, _, text in (block.partition("\n") for block in BLOCKS)}
LEAST_F1 = 0.95


@pytest.mark.parametrize("name", TEXTS)
def test_line_ends_of_small_texts(name):
    for paragraph in TEXTS[name].split("\n\n"):
        parts = [part.text for part in divided_at_lines(Paragraph(paragraph.replace(END, ""), 0))]
        wanted = re.split(f"{END}\n[ ]*", paragraph)
        assert parts == [part.replace(END, "") for part in wanted]


def boundaries(parts):
    """How many characters that are not blank come before the end of each part, except the last one."""
    lengths = [len(re.sub(r"\s", "", part)) for part in parts]
    return {sum(lengths[: number + 1]) for number in range(len(lengths) - 1)}


def test_sentences_of_small_texts():
    """With the tokenizer of the model that ships."""
    reader = text_reader(Path("models/english-ewt.stackparser"), "raw")
    right = found = wanted = 0
    for text in TEXTS.values():
        gold = boundaries(text.split(END))
        own = boundaries([sentence.text for sentence in reader.sentences(text.replace(END, ""))])
        right, found, wanted = right + len(gold & own), found + len(own), wanted + len(gold)
    assert len(TEXTS) == 30
    assert 2 * right / (found + wanted) >= LEAST_F1


WORDS = st.lists(st.from_regex("[A-Za-z]{1,12}[.,]?", fullmatch=True), min_size=1, max_size=60)


@given(WORDS, st.integers(NARROWEST, 90))
def test_wrapped_paragraphs_stay_whole(words, width):
    text = textwrap.fill(" ".join(words), width)
    assert list(divided_at_lines(Paragraph(text, 7))) == [Paragraph(text, 7)]


@given(st.text("ab -1.:\n", max_size=40))
def test_nothing_is_lost_and_places_are_right(content):
    text = content.strip()
    if not text:
        return
    parts = list(divided_at_lines(Paragraph(text, 5)))
    assert all(text[part.offset - 5 :].startswith(part.text) for part in parts)
    assert "".join("".join(part.text.split()) for part in parts) == "".join(text.split())


def test_how_lines_are_read_can_be_said():
    lines = "Dogs bark.\nCats sleep and\nbirds sing."
    reader = text_reader(Path("models/english-ewt.stackparser"), "raw")
    for form, count in (("raw", 3), ("wrapped", 2), ("one-paragraph-per-line", 3)):
        sentences = list(reader.of_form(form).sentences(lines))
        assert len(sentences) == count
        assert [token.form for sentence in sentences for token in sentence.tokens] == (
            ["Dogs", "bark", ".", "Cats", "sleep", "and", "birds", "sing", "."]
        )


@pytest.mark.parametrize("marker", ["•", "*", "1.", "(a)"])
def test_a_list_marker_is_no_sentence(marker):
    reader = text_reader(Path("models/english-ewt.stackparser"), "raw")
    found = [one.text for one in reader.sentences(f"{marker} The roof leaks.\n{marker} Rent is due.")]
    assert found == [f"{marker} The roof leaks.", f"{marker} Rent is due."]
