"""The units of texts, and what treebanks say of them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from parser.text.bilstm.units import alphabet_of, code_points, known_units, places_read, units_in
from parser.treebank.conllu import sentences_in
from parser.treebank.conllu_faults import Faults

TREEBANK = """# newpar
1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tDo\t_\t_\t_\t_\t_\t_\t_\t_
2\tn't\t_\t_\t_\t_\t_\t_\t_\t_
3\tgo\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No
4\t!\t_\t_\t_\t_\t_\t_\t_\t_

1\tnước\t_\t_\t_\t_\t_\t_\t_\t_
2\tViệt Nam\t_\t_\t_\t_\t_\t_\t_\t_

# newpar
1\tgo\t_\t_\t_\t_\t_\t_\t_\t_

"""


def treebank():
    return list(sentences_in(TREEBANK, Faults(), tree=False))


def test_what_a_treebank_says():
    first, second = known_units(treebank())
    assert first.text == "Don't go! nước Việt Nam"
    assert first.forms == ["don't", "go", "!", "nước", "việt", "nam"]
    ends_sentence, continues, is_multiword = first.decided.T.tolist()
    assert ends_sentence == [False, False, True, False, False, True]
    assert continues == [False, False, False, False, True, False]
    assert is_multiword == [True, False, False, False, False, False]
    assert (second.text, second.decided.tolist()) == ("go", [[True, False, False]])


def test_what_is_frequent_is_known():
    alphabet = alphabet_of(known_units(treebank()))
    assert alphabet.forms.strings == ("go",)
    assert set(alphabet.characters.strings) == {" ", "o"}
    assert alphabet.multiword_tokens.words == {"don't": ("do", "n't")}


@given(
    st.text(st.sampled_from("a. \n\U0001f600"), max_size=30),
    st.lists(st.booleans(), min_size=30, max_size=30),
)
def test_units_are_those_of_a_plain_loop(text, divides):
    units, start = [], None
    for place, character in enumerate(text):
        if character in " \n":
            continue
        start = place if start is None else start
        if divides[place] or text[place + 1 : place + 2] in ("", " ", "\n"):
            units.append((start, place + 1))
            start = None
    starts, ends = units_in(code_points(text), np.array(divides[: len(text)], bool))
    assert list(zip(starts.tolist(), ends.tolist(), strict=True)) == units


@given(st.text(st.sampled_from("ab \n"), max_size=30))
def test_a_run_of_white_space_is_read_as_one_blank(text):
    codes, places = places_read(code_points(text))
    read = "".join(map(chr, codes))
    assert read.strip() == " ".join(text.split())
    assert "  " not in read
    in_text = "".join(text[place] for place in places.tolist())
    assert in_text.replace("\n", " ") == read
