"""A page that shows the trees of a file and their differences from gold trees, and can filter them."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Any, Literal, NamedTuple

from parser.evaluation.scores import Scores
from parser.pages.page import rendered
from parser.system.console import as_name, quoted
from parser.treebank.conllu import comment
from parser.treebank.conllu_output import arc_probabilities
from parser.treebank.sentence import (
    BLANK,
    DEPS,
    FORM,
    ID,
    RANGE_ID,
    Sentence,
    annotation_columns,
    without_subtype,
)


def trees_page(title: str, sentences: Sequence[Sentence], gold: Sequence[Sentence] | None = None) -> str:
    """Return an HTML document with all trees. gold: sentences of the same words for comparison."""
    compared = [None] * len(sentences) if gold is None else gold
    trees = [
        tree_data(sentence, its_gold, arc_probabilities(sentence))
        for sentence, its_gold in zip(sentences, compared, strict=True)
    ]
    data: dict[str, Any] = {"sentences": trees, "words": sum(map(len, sentences))}
    if gold is not None:
        data["scores"] = scores_of(sentences, gold)
    return rendered("trees_page.html", title=title, trees=data)


def tree_data(
    sentence: Sentence, gold: Sentence | None = None, probabilities: Sequence[float] = ()
) -> dict[str, Any]:
    """Return the data that `drawTree` draws: values by word, without empty columns.

    probabilities: of arcs; included if all words have one. With gold, the data include the scores of the
    sentence and the differing gold arcs by number of the word.
    """
    data: dict[str, Any] = {
        "id": sentence.identifier,
        "line": sentence.line,
        "text": text_of(sentence),
        "forms": sentence.forms,
        "heads": sentence.heads,
        "labels": sentence.labels,
    }
    for name, column in annotation_columns().items():
        values = sentence.column(name)
        if any(value != BLANK for value in values):
            data[column.attribute] = values
    deps = [sentence.lines[index].rstrip("\r\n").split("\t")[DEPS] for index in sentence.word_lines]
    if any(":" in value for value in deps):  # otherwise they may be the PHEAD of CoNLL-X
        data["deps"] = deps
    if len(probabilities) == len(sentence):
        data["probabilities"] = probabilities
    if tokens := list(_multiword_tokens(sentence)):
        data["tokens"] = tokens
    if is_right_to_left(sentence.forms):
        data["rightToLeft"] = True
    if gold is not None:
        data["gold"] = {word: list(one) for word, one in differences(sentence, gold).items()}
        data["scores"] = scores_of([sentence], [gold])
    return data


def text_of(sentence: Sentence) -> str:
    """Return the `text` comment, or the words separated by blanks."""
    return comment(sentence.lines, "text") or " ".join(sentence.forms)


def is_right_to_left(forms: Sequence[str]) -> bool:
    """Return whether the first character with a strong direction belongs to a right-to-left script."""
    for form in forms:
        for character in form:
            direction = unicodedata.bidirectional(character)
            if direction in ("L", "R", "AL"):
                return direction != "L"
    return False


def scores_of(sentences: Sequence[Sentence], gold: Sequence[Sentence]) -> dict[str, float]:
    """Return UAS and LAS in percent, as computed by `stack-parser evaluate`."""
    scores = Scores()
    for sentence, its_gold in zip(sentences, gold, strict=True):
        scores.add(its_gold, sentence.heads, sentence.labels)
    return {"uas": round(scores.uas, 2), "las": round(scores.las, 2)}


def _multiword_tokens(sentence: Sentence) -> Iterator[tuple[int, int, str]]:
    """Yield the first word, the last word and the form of each multiword token."""
    for line in sentence.lines:
        if "-" in line and not line.startswith("#"):
            columns = line.split("\t")
            if span := RANGE_ID.fullmatch(columns[ID]):
                yield int(span[1]), int(span[2]), columns[FORM]


SAME_WORDS = "gold trees are compared with trees of the same sentences and words, in the same order"


class Difference(NamedTuple):
    """The gold arc to a word whose arc in the tree is different."""

    head: int
    label: str
    error: Literal["head", "label", ""]
    """The kind of error: the head, only the label, or only its subtype (empty), which scores ignore."""


def differences(sentence: Sentence, gold: Sentence) -> dict[int, Difference]:
    """Return the words whose head or label differs from the gold tree, by number of the word."""
    differing = {}
    arcs = zip(sentence.heads, sentence.labels, gold.heads, gold.labels, strict=True)
    for word, (head, label, gold_head, gold_label) in enumerate(arcs, 1):
        if head != gold_head:
            differing[word] = Difference(gold_head, gold_label, "head")
        elif without_subtype(label) != without_subtype(gold_label):
            differing[word] = Difference(gold_head, gold_label, "label")
        elif label != gold_label:
            differing[word] = Difference(gold_head, gold_label, "")
    return differing


def with_gold(
    path: str, sentences: Iterable[Sentence], gold_path: str, gold: Iterable[Sentence]
) -> Iterator[tuple[Sentence, Sentence]]:
    """Yield each sentence with that of the gold file. Raises ValueError if their words differ."""
    for one, other in zip_longest(sentences, gold):
        if one is None:
            assert other
            raise ValueError(f"{_where(gold_path, other)}: is not in {path}; {SAME_WORDS}")
        if other is None:
            raise ValueError(f"{_where(path, one)}: is not in {gold_path}; {SAME_WORDS}")
        if one.forms != other.forms:
            there = f"in sentence {as_name(one.identifier)}"
            fault = f"has {len(other):,} words, but there are {len(one):,} {there}"
            for word, (form, gold_form) in enumerate(zip(one.forms, other.forms, strict=False), 1):
                if form != gold_form:
                    fault = f"word {word} is {quoted(gold_form)}, but {quoted(form)} {there}"
                    break
            raise ValueError(
                f"{_where(gold_path, other)}: {fault} of {path}, line {one.line}; "
                f"{SAME_WORDS}: give the gold file of {path}"
            )
        yield one, other


def _where(path: str, sentence: Sentence) -> str:
    return f"{path}:{sentence.line}: sentence {as_name(sentence.identifier)}"
