"""Going on in the middle of an input, wherever that is and however it is cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parser.parsing.input_parts import InputParts, Position, name_of
from parser.text import reading
from parser.text.reading import TextPart, TextReader, read_parts
from parser.text.tokenizer_kinds import DividedText
from parser.treebank import conllu
from parser.treebank.conllu import TreebankPart, read_part

WORD = "1\tä\t_\t_\t_\t_\t0\troot\t_\t_\n"
PIECES = f"{WORD}\n", f"# sent_id = s\n{WORD}\n", f"{WORD}\n\n \n", f"\ufeff{WORD}\n"
TEXTS = "Was it round?\n", "\n", "ä b c.\n\n", " \n\n", "\ufeffDon't go."


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("input") / "input"


def sentences_of(parts, form):
    if form:
        return list(read_parts(TextReader(form, DividedText(form != "raw")), parts))
    return [sentence for part in parts for sentence in read_part(part, tree=True)[0]]


@pytest.mark.parametrize("form", [None, "raw", "one-sentence-per-line"])
@given(data=st.data(), least=st.integers(1, 50), size=st.integers(1, 200))
def test_the_rest_of_an_input_is_what_was_missing(path, form, data, least, size):
    pieces = data.draw(st.lists(st.sampled_from(TEXTS if form else PIECES), max_size=40))
    path.write_text("".join(pieces), newline="")
    with pytest.MonkeyPatch.context() as patch:
        for module in (conllu, reading):
            patch.setattr(module, "LEAST_SHARE", least)
            patch.setattr(module, "PART_BYTES", size)
        first = InputParts(str(path), form, data.draw(st.integers(1, 3)))
        all_parts = [(part, first.end()) for part in first]
        whole = sentences_of([part for part, _ in all_parts], form)
        sentences = 0
        for part, end in all_parts:
            sentences += len(sentences_of([part], form))
            rest = InputParts.after(str(path), form, data.draw(st.integers(1, 3)), end, sentences)
            found = sentences_of(rest, form)
            if form:  # their numbers begin with 1
                assert [one.forms for one in found] == [one.forms for one in whole[sentences:]]
            else:
                assert found == whole[sentences:]
            lost = Position(end.length, "of something else"), Position(end.length + 10**6, end.digest)
            for done in lost:
                assert InputParts.after(str(path), form, 1, done, sentences) is None


def test_parts_have_names():
    assert name_of(TreebankPart(7, 4, (f"{WORD}\n" * 2).encode()), "a.conllu") == "a.conllu: lines 7 to 10"
    text = name_of(TextPart(1000, "\nWas it\tround?\nYes"), "a.txt")
    assert text == "a.txt: characters 1,001 to 1,018, from 'Was it\\tround?' on"
