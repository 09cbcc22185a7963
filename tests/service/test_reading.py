"""The form NFC of texts: as Unicode says, and in pieces that nobody waits for."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("fastapi")

from parser.service import reading
from parser.service.reading import MARKS, PIECE, UNDIVIDED, normalized

LETTERS = st.sampled_from("aé\u0301\u0323\u0345 \n\u1112\u1161\u11ab\u0915\u093c\ufb2a\u212b")


@given(st.text(LETTERS | st.characters(exclude_categories=["Cs"]), max_size=80), st.integers(1, 5))
def test_it_is_the_form_of_the_whole_text(text, piece):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("parser.service.reading.PIECE", piece)
        assert normalized(text) == unicodedata.normalize("NFC", text)


def test_as_many_marks_as_are_allowed():
    text = "a" + "\u0323\u0301" * (MARKS // 2)
    assert normalized(text) == unicodedata.normalize("NFC", text)
    with pytest.raises(ValueError, match="more than 100 combining marks"):
        normalized(text + "\u0323")


@pytest.mark.parametrize("text", ["\u00e9" * UNDIVIDED + " ", "e\u0301 ", "e\u0301" * 1_000 + "\n"])
def test_pieces_are_small(text, monkeypatch):
    """One call stops all other threads."""
    lengths = []

    def normalize(form, piece):
        lengths.append(len(piece))
        return unicodedata.normalize(form, piece)

    monkeypatch.setattr(reading, "unicodedata", Unicode(normalize))
    normalized(text * (3 * PIECE // len(text)))
    assert len(lengths) > 1
    assert max(lengths) <= PIECE + UNDIVIDED


class Unicode:
    combining = staticmethod(unicodedata.combining)

    def __init__(self, normalize):
        self.normalize = normalize


def test_what_has_no_blanks_is_refused_before_anything_is_computed(monkeypatch):
    monkeypatch.setattr(reading, "unicodedata", None)
    with pytest.raises(ValueError, match="20,000 characters without a blank"):
        normalized("a" + "\u0301" * 100_000)
