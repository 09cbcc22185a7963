"""Finds the differences between a tree and the gold tree of the same words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import Literal, NamedTuple

from parser.system.console import as_name, quoted
from parser.treebank.labels import without_subtype
from parser.treebank.sentence import Sentence

SAME_WORDS = "gold trees are compared with trees of the same sentences and words, in the same order"


class Difference(NamedTuple):
    """The gold arc to a word whose arc in the tree is different."""

    head: int
    label: str
    error: Literal["head", "label", ""]
    """The kind of error: the head, only the label, or only its subtype (empty), which scores ignore."""


def differences(sentence: Sentence, gold: Sentence) -> dict[int, Difference]:
    """Return the words whose head or label differs from the gold tree, by number of the word."""
    found = {}
    arcs = zip(sentence.heads, sentence.labels, gold.heads, gold.labels, strict=True)
    for word, (head, label, gold_head, gold_label) in enumerate(arcs, 1):
        if head != gold_head:
            found[word] = Difference(gold_head, gold_label, "head")
        elif without_subtype(label) != without_subtype(gold_label):
            found[word] = Difference(gold_head, gold_label, "label")
        elif label != gold_label:
            found[word] = Difference(gold_head, gold_label, "")
    return found


def with_gold(
    path: str, sentences: Iterable[Sentence], gold_path: str, gold: Iterable[Sentence]
) -> Iterator[tuple[Sentence, Sentence]]:
    """Yield each sentence with that of the gold file. Raises ValueError if their words differ."""
    for one, other in zip_longest(sentences, gold):
        if one is None:
            assert other
            raise ValueError(f"{_place(gold_path, other)}: is not in {path}; {SAME_WORDS}")
        if other is None:
            raise ValueError(f"{_place(path, one)}: is not in {gold_path}; {SAME_WORDS}")
        if one.forms != other.forms:
            raise ValueError(
                f"{_place(gold_path, other)}: {_other_words(one, other)} of {path}, line {one.line}; "
                f"{SAME_WORDS}: give the gold file of {path}"
            )
        yield one, other


def _place(path: str, sentence: Sentence) -> str:
    return f"{path}:{sentence.line}: sentence {as_name(sentence.identifier)}"


def _other_words(sentence: Sentence, gold: Sentence) -> str:
    """Return the first difference of the words as text."""
    there = f"in sentence {as_name(sentence.identifier)}"
    for word, (form, gold_form) in enumerate(zip(sentence.forms, gold.forms, strict=False), 1):
        if form != gold_form:
            return f"word {word} is {quoted(gold_form)}, but {quoted(form)} {there}"
    return f"has {len(gold):,} words, but there are {len(sentence):,} {there}"
