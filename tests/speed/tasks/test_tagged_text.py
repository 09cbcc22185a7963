from pathlib import Path

import pytest

from parser.speed.tasks.tagged_text import (
    TaggedSentence,
    TaggedWord,
    TagVocabulary,
    numbered,
    read_tagged_text,
)


def test_a_file_of_tagged_text(tmp_path: Path) -> None:
    """Words may hold bars, but no byte order mark."""
    path = tmp_path / "text.txt"
    path.write_text("\ufeffeither|or|O Paris|I-LOC\n\n.|O\n", encoding="utf-8")
    sentences = read_tagged_text(path)
    assert sentences == [[TaggedWord("either|or", "O"), TaggedWord("Paris", "I-LOC")], [TaggedWord(".", "O")]]
    for content, message in (
        ("\n", "text.txt: no sentences"),
        ("fine|O\nnot fine|O\n", "text.txt:2: 'not' is not a word"),
    ):
        path.write_text(content, encoding="utf-8")
        with pytest.raises(ValueError, match=message):
            read_tagged_text(path)


def test_rare_items_have_no_number() -> None:
    assert numbered("abcabca", least=3) == {"a": 1}


def test_rare_words_are_spelled_between_boundaries() -> None:
    known = [TaggedWord("ab", "X"), TaggedWord("ab", "Y"), TaggedWord("b", "X")]
    vocabulary = TagVocabulary.of([known], rare=2)
    new = [TaggedWord("ab", "Y"), TaggedWord("bc", "Z")]
    assert vocabulary.number(new, spell=True) == TaggedSentence([1, 0], [1, -1], {1: [3, 2, 0, 3]})
    assert vocabulary.number(new, spell=False).spellings == {}
