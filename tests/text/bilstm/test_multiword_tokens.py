"""The words of multiword tokens."""

import pytest

from parser.text.bilstm.multiword_tokens import MultiwordTokens

KNOWN = MultiwordTokens.of(
    [
        ("don't", ("do", "n't")),
        ("Can't", ("Ca", "n't")),
        ("Tom's", ("Tom", "'s")),
        ("du", ("de", "le")),
        ("Aux", ("à", "les")),
        ("gwelet", ("gwel", "et")),
        ("gwelet", ("gwele", "t")),
        ("gwelet", ("gwele", "t")),
        ("too" * 100, ("too",) * 100),
        ("etc.", ("etc.", ".")),  # its first word is the whole token
    ]
)


@pytest.mark.parametrize(
    ("token", "words"),
    [
        ("Don't", ("Do", "n't")),
        ("DON'T", ("DO", "N'T")),
        ("wouldn't", ("would", "n't")),
        ("Kim's", ("Kim", "'s")),
        ("du", ("de", "le")),
        ("Du", ("De", "le")),
        ("DU", ("DE", "LE")),
        ("aux", ("à", "les")),
        ("gwelet", ("gwele", "t")),  # the most frequent
        ("marvet", ("marv", "et")),
        ("too" * 100, ("too" * 100,)),  # has too many words
        ("etc.", ("etc.", ".")),
        ("cap", ("cap",)),  # nothing is known of it
        ("'s", ("'s",)),  # no first word would be left
        ("İn't", ("İn't",)),  # has other letters in small
    ],
)
def test_words_of_a_token(token, words):
    assert KNOWN.words_of(token) == words


def test_without_multiword_tokens_nothing_is_divided():
    assert MultiwordTokens.of([]).words_of("don't") == ("don't",)
