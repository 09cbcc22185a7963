from pathlib import Path

import pytest

from parser.speed.tasks.tagged_text import (
    TaggedSentence,
    TaggedWord,
    TagVocabulary,
    numbered,
    read_tagged_text,
)


def test_words_may_hold_bars(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("either|or|O Paris|I-LOC\n\n.|O\n", encoding="utf-8")
    sentences = read_tagged_text(path)
    assert sentences == [[TaggedWord("either|or", "O"), TaggedWord("Paris", "I-LOC")], [TaggedWord(".", "O")]]


def test_a_byte_order_mark_is_no_part_of_a_word(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("\ufefffine|O\n", encoding="utf-8")
    assert read_tagged_text(path) == [[TaggedWord("fine", "O")]]


def test_a_word_without_a_label(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("fine|O\nnot fine|O\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"text.txt:2: 'not' is not a word, \|, and its label"):
        read_tagged_text(path)


def test_an_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"text.txt: no sentences"):
        read_tagged_text(path)


def test_rare_items_have_no_number() -> None:
    assert numbered("abcabca", least=3) == {"a": 1}


def test_rare_words_are_spelled_between_boundaries() -> None:
    known = [TaggedWord("ab", "X"), TaggedWord("ab", "Y"), TaggedWord("b", "X")]
    vocabulary = TagVocabulary.of([known], rare=2)
    new = [TaggedWord("ab", "Y"), TaggedWord("bc", "Z")]
    assert vocabulary.number(new, spell=True) == TaggedSentence([1, 0], [1, -1], {1: [3, 2, 0, 3]})
    assert vocabulary.number(new, spell=False).spellings == {}
