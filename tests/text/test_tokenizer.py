"""Long paragraphs: a tokenizer reads them in windows, and the result is as if it had read all at once."""

from functools import partial
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from parser.text.spacy_rules import SpacyTokenizer
from parser.text.tokenizer import Paragraph, Token, TokenizedSentence, in_windows, joined
from parser.text.tokenizer_kinds import tokenizer_from_json

TEXT = st.text(st.sampled_from("ab.. \n"), min_size=1, max_size=60)


def divide(text, offset, lengths=None):
    """Sentences end at full stops, blanks divide words."""
    if lengths is not None:
        lengths.append(len(text))
    start, begins = 0, True
    while start < len(text):
        end = text.find(".", start) + 1 or len(text)
        places, word = [], None
        for place in range(start, end + 1):
            if place < end and not text[place].isspace():
                word = place if word is None else word
            elif word is not None:
                places.append((word, place))
                word = None
        if places:
            tokens = tuple(
                Token(text[a:b], offset + a, offset + b, (text[a:b],), b == len(text) or text[b].isspace())
                for a, b in places
            )
            yield TokenizedSentence(tokens, " ".join(text[places[0][0] : places[-1][1]].split()), begins)
            begins = False
        start = end


@given(TEXT, st.integers(2, 30))
def test_no_character_is_lost_and_no_window_is_longer(text, width):
    lengths = []
    found = list(in_windows(text, 7, width, partial(divide, lengths=lengths)))
    assert max(lengths) <= 2 * width
    assert sum(lengths) <= 8 * len(text)
    assert "".join(token.form for one in found for token in one.tokens) == "".join(text.split())
    for one in found:
        for token in one.tokens:
            assert text[token.start - 7 : token.end - 7] == token.form
            assert token.space_after == (token.end - 7 == len(text) or text[token.end - 7].isspace())
    assert [one.begins_paragraph for one in found] == [True] + [False] * (len(found) - 1) if found else True


def test_sentences_are_found_across_the_ends_of_windows():
    text = "One two three. Four five. Six seven eight nine. Ten."
    for width in range(30, 60):
        assert list(in_windows(text, 0, width, divide)) == list(divide(text, 0))


@given(TEXT, st.integers(8, 30))
def test_the_parts_of_a_line_are_one_sentence(text, width):
    line = " ".join(text.replace(".", "").split())
    assume(all(len(word) <= width // 2 for word in line.split()))
    assert list(joined(in_windows(line, 0, width, divide))) == list(divide(line, 0))


@pytest.fixture(scope="module")
def tokenizer():
    stored = tokenizer_from_json(Path("tests/text/tokenizer.json").read_bytes())
    return stored.settings.opened(stored.content())


@pytest.mark.parametrize(
    "text",
    [
        ("a" * 19_999 + " ") * 3,
        "a." * 20_000,
        "这是一个句子" * 3_000,
        " ".join(["word" * 8] * 1_000),
        "a" * 9_000,
    ],
    ids=["long words", "full stops", "no blanks", "rather long words", "one word"],
)
@pytest.mark.parametrize("is_sentence", [False, True])
def test_no_character_of_a_long_paragraph_is_lost(tokenizer, text, is_sentence):
    found = list(tokenizer.sentences([Paragraph(text, 7)], is_sentence))
    tokens = [token for one in found for token in one.tokens]
    assert "".join(token.form for token in tokens) == "".join(text.split())
    assert all(text[token.start - 7 : token.end - 7] == token.form for token in tokens)
    assert [one.begins_paragraph for one in found] == [not is_sentence] + [False] * (len(found) - 1)
    assert not is_sentence or len(found) == 1


def test_the_rules_of_spacy_find_the_same_in_windows():
    pytest.importorskip("spacy")
    tokenizer = SpacyTokenizer("en")
    text = "The cat (Tom) sleeps. Don't!  Was it 3.5 round? " * 400
    for is_sentence in (False, True):
        found = tokenizer.sentences([Paragraph(text, 5)], is_sentence)
        assert list(found) == list(tokenizer._divide(text, 5, is_sentence))
