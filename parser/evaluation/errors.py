"""Where a parser makes errors, by kinds of words and sentences, and which labels and heads it confuses."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from parser.evaluation.known import DEPREL, KnownValues
from parser.evaluation.scores import (
    LENGTH_GROUPS,
    PUNCTUATION_TAGS,
    Scores,
    group_of,
    length_group,
    range_name,
    word_classes,
)
from parser.evaluation.tally import Example, Tally
from parser.evaluation.value_errors import ValueErrors
from parser.parsing.parsed_tree import ParsedTree
from parser.treebank.projectivity import crossing
from parser.treebank.sentence import Sentence, without_subtype

DISTANCES = ((0, 0), (1, 1), (2, 2), (3, 3), (4, 5), (6, None))
SENTENCE_LENGTHS = ((1, 5), (6, 10), (11, 20), (21, 40), (41, None))
ROOT = "ROOT"
LABEL, ARC_LENGTH = "label", "length of the arc, in words"
DISTANCE, SENTENCE_LENGTH = "distance to the root, in arcs", "length of the sentence, in words"
KNOWN, TAG = "known and unknown words", "tag"
ARC, TREE = "projectivity of the arc", "projectivity of the sentence"
GROUPINGS: dict[str, Sequence[str]] = {
    LABEL: (),
    ARC_LENGTH: LENGTH_GROUPS,
    DISTANCE: tuple(range_name(*group) for group in DISTANCES),
    SENTENCE_LENGTH: tuple(range_name(*group) for group in SENTENCE_LENGTHS),
    KNOWN: ("in the training treebank", "not in it"),
    TAG: (),
    ARC: ("projective", "non-projective"),
    TREE: ("projective", "non-projective"),
}
"""Ways to divide the words by the gold trees, with the order of the groups; () orders them by size."""


@dataclass
class WordGroup:
    words: int = 0
    correct_heads: int = 0
    correct_arcs: int = 0

    @property
    def uas(self) -> float:
        return 100 * self.correct_heads / self.words

    @property
    def las(self) -> float:
        return 100 * self.correct_arcs / self.words


class SentenceErrors(NamedTuple):
    words: int
    errors: int
    """Words whose head or label is wrong."""


@dataclass
class Errors:
    """The errors of a parser on a treebank. Labels are without subtypes."""

    scores: Scores = field(default_factory=Scores)
    groups: dict[str, defaultdict[str, WordGroup]] = field(
        default_factory=lambda: {grouping: defaultdict(WordGroup) for grouping in GROUPINGS}
    )
    """The groups of words of each grouping, see `GROUPINGS`."""
    labels: Tally = field(default_factory=Tally)
    """The gold and the parsed label of words with the right head and a wrong label, if training has the gold
    label with its subtype.
    """
    head_tags: Tally = field(default_factory=Tally)
    """The tags of the gold and the parsed head of words with a wrong head."""
    values: ValueErrors = field(default_factory=ValueErrors)
    sentences: list[SentenceErrors] = field(default_factory=list)

    def ordered(self, grouping: str) -> Iterator[tuple[str, WordGroup]]:
        """The groups of a grouping that contain words, in order."""
        groups = self.groups[grouping]
        names = GROUPINGS[grouping] or sorted(groups, key=lambda name: (-groups[name].words, name))
        return ((name, groups[name]) for name in names if name in groups)

    def worst(self, most: int) -> list[int]:
        """The numbers, from 0, of the sentences with the most errors, the largest share of errors first."""
        wrong = [number for number, (_, errors) in enumerate(self.sentences) if errors]
        by_errors = sorted(wrong, key=lambda number: (-self.sentences[number].errors, number))[:most]
        # A sentence with errors has words.
        return sorted(
            by_errors, key=lambda number: -self.sentences[number].errors / self.sentences[number].words
        )

    def as_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return {
            "scores": self.scores.as_dict(),
            "groups": {
                grouping: {
                    name: {"words": group.words, "uas": group.uas, "las": group.las}
                    for name, group in self.ordered(grouping)
                }
                for grouping in GROUPINGS
            },
            "labels": list(self.labels.as_rows("gold", "parsed")),
            "head_tags": list(self.head_tags.as_rows("gold", "parsed")),
            **self.values.as_dict(),
            "sentences": [one._asdict() for one in self.sentences],
        }


def find_errors(
    gold: Sequence[Sentence], trees: Sequence[ParsedTree], known: KnownValues, punctuation: bool = True
) -> Errors:
    """The errors of trees.

    known: what the training treebank has. punctuation: whether punctuation is scored.
    """
    errors = Errors()
    for place, (sentence, tree) in enumerate(zip(gold, trees, strict=True)):
        errors.scores.add(sentence, tree.heads, tree.labels, punctuation, tree.tags, tree.graph)
        tags = word_classes(sentence)
        tags_of_heads = [ROOT, *tags]
        distances, crosses = distances_to_root(sentence.heads), frozenset(crossing(sentence.heads))
        scored = [word for word, tag in enumerate(tags) if punctuation or tag not in PUNCTUATION_TAGS]
        wrong = 0
        for word in scored:
            form, head, parsed_head = sentence.forms[word], sentence.heads[word], tree.heads[word]
            label, parsed_label = (without_subtype(labels[word]) for labels in (sentence.labels, tree.labels))
            right_head, right = head == parsed_head, (head, label) == (parsed_head, parsed_label)
            is_known = known.is_form(form)
            wrong += not right
            for grouping, name in (
                (LABEL, label),
                (ARC_LENGTH, length_group(word + 1, head)),
                (DISTANCE, group_of(distances[word], DISTANCES)),
                (SENTENCE_LENGTH, group_of(len(sentence), SENTENCE_LENGTHS)),
                (KNOWN, GROUPINGS[KNOWN][not is_known]),
                (TAG, tags[word]),
                (ARC, GROUPINGS[ARC][word + 1 in crosses]),
                (TREE, GROUPINGS[TREE][bool(crosses)]),
            ):
                group = errors.groups[grouping][name]
                group.words += 1
                group.correct_heads += right_head
                group.correct_arcs += right
            example = Example(form, place, sentence.identifier, sentence.line)
            if right_head and not right and not known.lacks(DEPREL, sentence.labels[word]):
                errors.labels.add((label, parsed_label), example, is_known)
            if not right_head:
                errors.head_tags.add((tags_of_heads[head], tags_of_heads[parsed_head]), example, is_known)
        errors.values.add(sentence, tree, place, scored, known)
        errors.sentences.append(SentenceErrors(len(scored), wrong))
    return errors


def distances_to_root(heads: Sequence[int]) -> list[int]:
    """The number of arcs between each word and the root word; 0 for the root word itself."""
    distances: list[int | None] = [None] * len(heads)
    for word in range(len(heads)):
        path = []
        above: int | None = word
        while above is not None and distances[above] is None:
            path.append(above)
            above = heads[above] - 1 if heads[above] else None
        reached = -1 if above is None else distances[above]
        assert reached is not None
        for step, below in enumerate(reversed(path), 1):
            distances[below] = reached + step
    return [distance for distance in distances if distance is not None]
