"""Durations in words."""

import pytest

from parser.system.durations import in_words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.2, "a few seconds"),
        (9.9, "a few seconds"),
        (44, "about 40 s"),
        (89, "about 90 s"),
        (100, "about 2 min"),
        (721, "about 12 min"),
        (5300, "about 88 min"),
        (5500, "about 1.5 h"),
        (90_000, "about 25.0 h"),
    ],
)
def test_durations_are_rounded(seconds, words):
    assert in_words(seconds) == words
