"""How well trees agree with gold trees: the measures of the CoNLL 2018 shared task, on gold words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from parser.treebank.projectivity import crossing
from parser.treebank.sentence import Sentence

# fmt: off
CONTENT_LABELS = frozenset([
    "acl", "advcl", "advmod", "amod", "appos", "ccomp", "compound", "conj", "csubj", "dep", "discourse",
    "dislocated", "expl", "fixed", "flat", "goeswith", "iobj", "list", "nmod", "nsubj", "nummod", "obj",
    "obl", "orphan", "parataxis", "reparandum", "root", "vocative", "xcomp",
])
# fmt: on
"""Labels of content words, for CLAS, as the shared task's scorer lists them."""
PUNCTUATION_TAGS = frozenset(["PUNCT", "``", "''", ":", ",", "."])
"""The UPOS of UD, and the five tags of the Penn Treebank; XPOS is looked at where there is no UPOS."""
ARC_LENGTHS = ((1, 1), (2, 2), (3, 3), (4, 7), (8, 15), (16, None))


def without_subtype(label: str) -> str:
    return label.split(":", 1)[0]


@dataclass
class Scores:
    """Counts that add up over sentences; the measures are percentages."""

    words: int = 0
    sentences: int = 0
    correct_heads: int = 0
    correct_arcs: int = 0
    correct_full_arcs: int = 0
    correct_content_arcs: int = 0
    exact_sentences: int = 0
    gold_labels: Counter[str] = field(default_factory=Counter)
    parsed_labels: Counter[str] = field(default_factory=Counter)
    correct_labels: Counter[str] = field(default_factory=Counter)
    lengths: Counter[str] = field(default_factory=Counter)
    correct_lengths: Counter[str] = field(default_factory=Counter)
    crossing_arcs: int = 0
    correct_crossing_heads: int = 0

    def add(
        self, gold: Sentence, heads: Sequence[int], labels: Sequence[str], punctuation: bool = True
    ) -> None:
        """Count a sentence; without `punctuation`, its punctuation is left out."""
        exact = True
        crosses = frozenset(crossing(gold.heads))
        tags = [xpos if upos == "_" else upos for upos, xpos in zip(gold.upos, gold.xpos, strict=True)]
        for word, (tag, gold_head, gold_full, head, full) in enumerate(
            zip(tags, gold.heads, gold.labels, heads, labels, strict=True), 1
        ):
            if not punctuation and tag in PUNCTUATION_TAGS:
                continue
            gold_label, label = without_subtype(gold_full), without_subtype(full)
            right_head = head == gold_head
            right = right_head and label == gold_label
            length = _length_group(word, gold_head)
            self.words += 1
            self.correct_heads += right_head
            self.correct_arcs += right
            self.correct_full_arcs += right_head and full == gold_full
            self.correct_content_arcs += right and gold_label in CONTENT_LABELS
            self.gold_labels[gold_label] += 1
            self.parsed_labels[label] += 1
            self.correct_labels[gold_label] += right
            self.lengths[length] += 1
            self.correct_lengths[length] += right
            self.crossing_arcs += word in crosses
            self.correct_crossing_heads += right_head and word in crosses
            exact = exact and right
        self.sentences += 1
        self.exact_sentences += exact

    def __add__(self, other: Scores) -> Scores:
        return Scores(*(getattr(self, own.name) + getattr(other, own.name) for own in fields(Scores)))

    @property
    def uas(self) -> float:
        """Unlabelled attachment score: words with the right head."""
        return _percent(self.correct_heads, self.words)

    @property
    def las(self) -> float:
        """Labelled attachment score: words with the right head and label, subtypes stripped."""
        return _percent(self.correct_arcs, self.words)

    @property
    def las_full(self) -> float:
        """Labelled attachment score over labels as they stand."""
        return _percent(self.correct_full_arcs, self.words)

    @property
    def clas(self) -> float:
        """Content-word labelled attachment score: F1 of LAS over words with content labels."""
        contents = sum(
            count
            for labels in (self.gold_labels, self.parsed_labels)
            for label, count in labels.items()
            if label in CONTENT_LABELS
        )
        return _percent(2 * self.correct_content_arcs, contents)

    @property
    def exact(self) -> float:
        """Sentences whose labelled tree is right altogether."""
        return _percent(self.exact_sentences, self.sentences)

    @property
    def crossing_recall(self) -> float:
        """Non-projective gold arcs that were found, whatever their labels."""
        return _percent(self.correct_crossing_heads, self.crossing_arcs)

    def label_f1(self) -> dict[str, float]:
        """F1 of each label (with its head), most frequent gold label first."""
        names = sorted(
            self.gold_labels | self.parsed_labels, key=lambda name: (-self.gold_labels[name], name)
        )
        return {
            name: _percent(2 * self.correct_labels[name], self.gold_labels[name] + self.parsed_labels[name])
            for name in names
        }

    def length_las(self) -> dict[str, float]:
        """LAS by the length of the gold arc, in words; "root" for the arc from ROOT."""
        names = ["root", *(_range_name(*group) for group in ARC_LENGTHS)]
        return {
            name: _percent(self.correct_lengths[name], self.lengths[name])
            for name in names
            if self.lengths[name]
        }

    def as_dict(self) -> dict[str, Any]:
        return {
            "uas": self.uas,
            "las": self.las,
            "las_full": self.las_full,
            "clas": self.clas,
            "exact": self.exact,
            "crossing_recall": self.crossing_recall,
            "crossing_arcs": self.crossing_arcs,
            "words": self.words,
            "sentences": self.sentences,
            "label_f1": self.label_f1(),
            "length_las": self.length_las(),
        }


def score(gold: Iterable[Sentence], trees: Iterable[tuple[Any, ...]], punctuation: bool = True) -> Scores:
    """Scores of the trees (heads, labels, ...) of the same sentences."""
    scores = Scores()
    for sentence, (heads, labels, *_) in zip(gold, trees, strict=True):
        scores.add(sentence, heads, labels, punctuation)
    return scores


def _percent(part: int, whole: int) -> float:
    return 100 * part / whole if whole else 0.0


def _length_group(dependent: int, head: int) -> str:
    if head == 0:
        return "root"
    length = abs(head - dependent)
    return next(_range_name(low, high) for low, high in ARC_LENGTHS if high is None or length <= high)


def _range_name(low: int, high: int | None) -> str:
    if high is None:
        return f"{low}+"
    return str(low) if low == high else f"{low}-{high}"
