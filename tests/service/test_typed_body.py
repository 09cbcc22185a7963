"""JSON that is read value by value is what Python's `json` reads."""

import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("fastapi")

from parser.service.typed_body import GivenSentences, JSONReader

SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8
)
INDENTS = st.sampled_from([None, 0, 3])


def read(text):
    """The value of a text by all three ways of reading."""
    reader = JSONReader(text)
    if text.lstrip(" \t\n\r").startswith("{"):
        value = {key: reader.value() for key in reader.members()}
    elif reader.is_at_list:
        value = [reader.value() for _ in reader.items()]
    else:
        value = reader.value()
    reader.end()
    return value


@given(VALUES, INDENTS, st.booleans())
def test_all_values_are_read(value, indent, ascii_only):
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    assert read(f" \r\n{text}\t ") == value


@given(VALUES, INDENTS, st.integers(0, 1_000), st.sampled_from(["", *',:[]{}"\\x1 ', "NaN", ",,"]))
def test_what_is_no_json_is_refused(value, indent, position, sign):
    text = json.dumps(value, indent=indent)
    position %= len(text) + 1
    broken = text[:position] + sign + text[position + 1 :]
    try:
        expected = json.loads(broken, parse_constant=lambda name: [][0])
    except (ValueError, IndexError):
        with pytest.raises(ValueError, match=r".+"):
            read(broken)
    else:
        assert read(broken) == expected


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "[" * sys.getrecursionlimit() * 2])
def test_deep_nesting_is_refused(text):
    with pytest.raises(ValueError, match="nested too deeply"):
        JSONReader(text).value()


def test_a_number_that_takes_long_is_refused():
    with pytest.raises(ValueError, match="more than 1,000 digits"):
        JSONReader("9" * 100_000).value()


def test_sentences_can_be_read_again():
    sentences = [{"words": ["a", "b"], "heads": [None, 1]}, {"words": ["c"]}]
    text = json.dumps({"sentences": sentences, "keep": "given"})
    reader = JSONReader(text)
    members = reader.members()
    assert next(members) == "sentences"
    given_sentences = GivenSentences(reader)
    assert given_sentences.have_trees
    assert list(given_sentences) == list(given_sentences) == sentences
    assert [reader.value() for _ in members] == ["given"]
